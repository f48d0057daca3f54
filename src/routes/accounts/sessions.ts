// The sessions of a user, for the user: parse, one service call, answer. Logging in and out is in users.ts.
import { createRoute } from '@hono/zod-openapi';
import { inPersonFor } from '../../http/authenticate.ts';
import { answer, responsesOf } from '../../http/envelope.ts';
import { createRouter } from '../../http/router.ts';
import { pageQuerySchema } from '../../protocol/http/devices.ts';
import {
  endedSessionSchema,
  endedSessionsSchema,
  endSessionsQuerySchema,
  ownSessionPageSchema,
  sessionIdParamSchema,
} from '../../protocol/http/users.ts';
import { endSession, endSessions, pageSessions } from '../../services/accounts/own-sessions.ts';

const onSessions = { tags: ['Users'], ...inPersonFor('manageSessions') };

const listRoute = createRoute({
  method: 'get',
  path: '/',
  summary: 'List your sessions, the last used first',
  ...onSessions,
  request: { query: pageQuerySchema },
  responses: responsesOf(ownSessionPageSchema, 'invalid_request', 'unauthorized'),
});

const endRoute = createRoute({
  method: 'delete',
  path: '/{sessionId}',
  summary: 'End one of your sessions',
  description:
    'Its refresh token is gone at once; an access token that was issued before stays valid until it expires.',
  ...onSessions,
  request: { params: sessionIdParamSchema },
  responses: responsesOf(endedSessionSchema, 'invalid_request', 'unauthorized', 'not_found'),
});

const endAllRoute = createRoute({
  method: 'delete',
  path: '/',
  summary: 'End all of your sessions, or all others',
  description: 'As for a single one. With `keep=current` the session of this request goes on.',
  ...onSessions,
  request: { query: endSessionsQuerySchema },
  responses: responsesOf(endedSessionsSchema, 'invalid_request', 'unauthorized'),
});

export const userSessionRoutes = createRouter()
  .openapi(listRoute, async (c) => answer(c, await pageSessions(c.var.context, c.var.caller, c.req.valid('query'))))
  .openapi(endRoute, async (c) =>
    answer(c, await endSession(c.var.context, c.var.caller, c.req.valid('param').sessionId)),
  )
  .openapi(endAllRoute, async (c) =>
    answer(c, await endSessions(c.var.context, c.var.caller, c.req.valid('query').keep === 'current')),
  );
