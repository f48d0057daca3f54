// API keys (contract 4.1), managed with a bearer token only: parse, one service call, answer.
import { createRoute, z } from '@hono/zod-openapi';
import { authenticate } from '../http/authenticate.ts';
import { answer, dataAnswer, errorAnswers } from '../http/envelope.ts';
import { jsonBody } from '../http/request-body.ts';
import { createRouter } from '../http/router.ts';
import { byUser } from '../http/security-schemes.ts';
import { contextOf } from '../http/service-context.ts';
import { pageQuery } from '../protocol/http.ts';
import {
  apiKeyBodySchema,
  apiKeyPageSchema,
  createdApiKeySchema,
  deletedApiKeySchema,
  keyIdParamSchema,
} from '../protocol/http-api-keys.ts';
import { createApiKey, pageApiKeys, removeApiKey } from '../services/api-keys.ts';

const asUser = { tags: ['API keys'], security: byUser, middleware: authenticate('user') };

const createKeyRoute = createRoute({
  method: 'post',
  path: '/',
  summary: 'Create an API key',
  description: 'The value is shown this once. A user has at most 20 keys.',
  ...asUser,
  request: { body: jsonBody(apiKeyBodySchema) },
  responses: {
    ...dataAnswer(createdApiKeySchema),
    ...errorAnswers('invalid_request', 'unauthorized', 'too_many_api_keys'),
  },
});

const listKeysRoute = createRoute({
  method: 'get',
  path: '/',
  summary: 'List your API keys, newest first',
  ...asUser,
  request: { query: z.object(pageQuery) },
  responses: { ...dataAnswer(apiKeyPageSchema), ...errorAnswers('invalid_request', 'unauthorized') },
});

const deleteKeyRoute = createRoute({
  method: 'delete',
  path: '/{keyId}',
  summary: 'Delete an API key',
  ...asUser,
  request: { params: keyIdParamSchema },
  responses: {
    ...dataAnswer(deletedApiKeySchema),
    ...errorAnswers('invalid_request', 'unauthorized', 'forbidden', 'not_found'),
  },
});

export const apiKeyRoutes = createRouter()
  .openapi(createKeyRoute, async (c) => {
    const { description } = c.req.valid('json');
    return answer(c, await createApiKey(contextOf(c), c.var.caller.userId, description));
  })
  .openapi(listKeysRoute, async (c) =>
    answer(c, await pageApiKeys(contextOf(c), c.var.caller.userId, c.req.valid('query'))),
  )
  .openapi(deleteKeyRoute, async (c) =>
    answer(c, await removeApiKey(contextOf(c), c.var.caller.userId, c.req.valid('param').keyId)),
  );
