// API keys (contract 4.1), managed with a bearer token only: parse, one service call, answer.
import { confirmedFor, inPersonFor } from '../../http/authenticate.ts';
import { answer, confirmedErrors, declaring, signedInErrors } from '../../http/envelope.ts';
import { jsonBody, createRouter, routesAbout, paged } from '../../http/router.ts';
import * as schemas from '../../protocol/http/api-keys.ts';
import { createApiKey, pageApiKeys, removeApiKey } from '../../services/accounts/api-keys.ts';

const route = routesAbout('API keys');

const asUser = declaring(inPersonFor('manageKeys'), ...signedInErrors);
const asConfirmed = declaring(confirmedFor('manageKeys'), ...confirmedErrors);

export const apiKeyRoutes = createRouter()
  .openapi(
    route('post', '/', {
      ...asConfirmed(
        'Create an API key',
        schemas.createdApiKeySchema,
        'not_found',
        'device_not_found',
        'too_many_api_keys',
      ),
      description:
        'The value is shown this once. A user has at most 20 keys, or as many as the operator allows. A key may be held to ' +
        'scopes and to the devices of one product; without them it may do everything that keys may. `manage` amounts to ' +
        'owning the devices: it makes messaging passwords, claims devices and invites users.',
      request: { body: jsonBody(schemas.apiKeyBodySchema) },
    }),
    (c) => answer(c, createApiKey(c.var.context, c.var.caller.userId, c.req.valid('json'))),
  )
  .openapi(route('get', '/', paged(asUser('List your API keys, newest first', schemas.apiKeyPageSchema))), (c) =>
    answer(c, pageApiKeys(c.var.context, c.var.caller.userId, c.req.valid('query'))),
  )
  .openapi(
    route('delete', '/{keyId}', {
      ...asUser('Delete an API key', schemas.deletedApiKeySchema, 'forbidden', 'not_found'),
      description: 'Its guest links, its claim tokens and its open invitations end with it.',
    }),
    (c) => answer(c, removeApiKey(c.var.context, c.var.caller.userId, c.req.valid('param').keyId)),
  );
