// API keys (contract 4.1), managed with a bearer token only: parse, one service call, answer.
import { createRoute, z } from '@hono/zod-openapi';
import { inPersonFor } from '../../http/authenticate.ts';
import { answer, responsesOf } from '../../http/envelope.ts';
import { jsonBody } from '../../http/request-body.ts';
import { createRouter } from '../../http/router.ts';
import { pageQuery } from '../../protocol/http/common.ts';
import {
  apiKeyBodySchema,
  apiKeyPageSchema,
  createdApiKeySchema,
  deletedApiKeySchema,
  keyIdParamSchema,
} from '../../protocol/http/api-keys.ts';
import { createApiKey, pageApiKeys, removeApiKey } from '../../services/accounts/api-keys.ts';

const asUser = { tags: ['API keys'], ...inPersonFor('manageKeys') };

const createKeyRoute = createRoute({
  method: 'post',
  path: '/',
  summary: 'Create an API key',
  description:
    'The value is shown this once. A user has at most 20 keys, or as many as the operator allows. A key may be held to ' +
    'scopes and to the devices of one product; without them it may do everything that keys may.',
  ...asUser,
  request: { body: jsonBody(apiKeyBodySchema) },
  responses: responsesOf(createdApiKeySchema, 'invalid_request', 'unauthorized', 'not_found', 'too_many_api_keys'),
});

const listKeysRoute = createRoute({
  method: 'get',
  path: '/',
  summary: 'List your API keys, newest first',
  ...asUser,
  request: { query: z.object(pageQuery) },
  responses: responsesOf(apiKeyPageSchema, 'invalid_request', 'unauthorized'),
});

const deleteKeyRoute = createRoute({
  method: 'delete',
  path: '/{keyId}',
  summary: 'Delete an API key',
  ...asUser,
  request: { params: keyIdParamSchema },
  responses: responsesOf(deletedApiKeySchema, 'invalid_request', 'unauthorized', 'forbidden', 'not_found'),
});

export const apiKeyRoutes = createRouter()
  .openapi(createKeyRoute, async (c) => {
    return answer(c, await createApiKey(c.var.context, c.var.caller.userId, c.req.valid('json')));
  })
  .openapi(listKeysRoute, async (c) =>
    answer(c, await pageApiKeys(c.var.context, c.var.caller.userId, c.req.valid('query'))),
  )
  .openapi(deleteKeyRoute, async (c) =>
    answer(c, await removeApiKey(c.var.context, c.var.caller.userId, c.req.valid('param').keyId)),
  );
