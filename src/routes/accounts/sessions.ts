// The sessions of a user, for the user: parse, one service call, answer. Logging in and out is in users.ts.
import { inPersonFor } from '../../http/authenticate.ts';
import { answer, responsesOf, signedInErrors } from '../../http/envelope.ts';
import { createRouter, routesAbout } from '../../http/router.ts';
import { pageQuerySchema } from '../../protocol/http/devices.ts';
import * as schemas from '../../protocol/http/users.ts';
import { endSession, endSessions, pageSessions } from '../../services/accounts/sessions.ts';

const route = routesAbout('Users');

const onSessions = inPersonFor('manageSessions');

export const userSessionRoutes = createRouter()
  .openapi(
    route('get', '/', {
      summary: 'List your sessions, the last used first',
      ...onSessions,
      request: { query: pageQuerySchema },
      responses: responsesOf(schemas.ownSessionPageSchema, ...signedInErrors),
    }),
    (c) => answer(c, pageSessions(c.var.context, c.var.caller, c.req.valid('query'))),
  )
  .openapi(
    route('delete', '/{sessionId}', {
      summary: 'End one of your sessions',
      description:
        'Its refresh token is gone at once. An access token that was issued before reads and controls until it expires, and ' +
        'changes nothing.',
      ...onSessions,
      request: { params: schemas.sessionIdParamSchema },
      responses: responsesOf(schemas.endedSessionSchema, ...signedInErrors, 'not_found'),
    }),
    (c) => answer(c, endSession(c.var.context, c.var.caller, c.req.valid('param').sessionId)),
  )
  .openapi(
    route('delete', '/', {
      summary: 'End all of your sessions, or all others',
      description: 'As for a single one. With `keep=current` the session of this request goes on.',
      ...onSessions,
      request: { query: schemas.endSessionsQuerySchema },
      responses: responsesOf(schemas.endedSessionsSchema, ...signedInErrors),
    }),
    (c) => answer(c, endSessions(c.var.context, c.var.caller, c.req.valid('query').keep === 'current')),
  );
