// API keys (contract 4.1), managed with a bearer token only: parse, one service call, answer.
import { confirmedFor, inPersonFor } from '../../http/authenticate.ts';
import { answer, callerErrors, confirmedErrors, responsesOf, signedInErrors } from '../../http/envelope.ts';
import { jsonBody, createRouter, routesAbout } from '../../http/router.ts';
import { pageQuerySchema } from '../../protocol/http/devices.ts';
import * as schemas from '../../protocol/http/api-keys.ts';
import { createApiKey, pageApiKeys, removeApiKey } from '../../services/accounts/api-keys.ts';

const route = routesAbout('API keys');

const asUser = inPersonFor('manageKeys');

export const apiKeyRoutes = createRouter()
  .openapi(
    route('post', '/', {
      summary: 'Create an API key',
      description:
        'The value is shown this once. A user has at most 20 keys, or as many as the operator allows. A key may be held to ' +
        'scopes and to the devices of one product; without them it may do everything that keys may. `manage` amounts to ' +
        'owning the devices: it makes messaging passwords, claims devices and invites users.',
      ...confirmedFor('manageKeys'),
      request: { body: jsonBody(schemas.apiKeyBodySchema) },
      responses: responsesOf(schemas.createdApiKeySchema, ...confirmedErrors, 'not_found', 'too_many_api_keys'),
    }),
    (c) => answer(c, createApiKey(c.var.context, c.var.caller.userId, c.req.valid('json'))),
  )
  .openapi(
    route('get', '/', {
      summary: 'List your API keys, newest first',
      ...asUser,
      request: { query: pageQuerySchema },
      responses: responsesOf(schemas.apiKeyPageSchema, ...signedInErrors),
    }),
    (c) => answer(c, pageApiKeys(c.var.context, c.var.caller.userId, c.req.valid('query'))),
  )
  .openapi(
    route('delete', '/{keyId}', {
      summary: 'Delete an API key',
      description: 'Its guest links, its claim tokens and its open invitations end with it.',
      ...asUser,
      request: { params: schemas.keyIdParamSchema },
      responses: responsesOf(schemas.deletedApiKeySchema, ...callerErrors, 'not_found'),
    }),
    (c) => answer(c, removeApiKey(c.var.context, c.var.caller.userId, c.req.valid('param').keyId)),
  );
