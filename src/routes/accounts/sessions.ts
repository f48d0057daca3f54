// The sessions of a user, for the user: parse, one service call, answer. Logging in and out is in users.ts.
import { inPersonFor } from '../../http/authenticate.ts';
import { answer, declaring, signedInErrors } from '../../http/envelope.ts';
import { createRouter, routesAbout, paged } from '../../http/router.ts';
import * as schemas from '../../protocol/http/users.ts';
import { endSession, endSessions, pageSessions } from '../../services/accounts/sessions.ts';

const route = routesAbout('Users');

const onSessions = declaring(inPersonFor('manageSessions'), ...signedInErrors);

export const userSessionRoutes = createRouter()
  .openapi(
    route('get', '/', paged(onSessions('List your sessions, the last used first', schemas.ownSessionPageSchema))),
    (c) => answer(c, pageSessions(c.var.context, c.var.caller, c.req.valid('query'))),
  )
  .openapi(
    route('delete', '/{sessionId}', {
      ...onSessions('End one of your sessions', schemas.endedSessionSchema, 'not_found'),
      description:
        'Its refresh token is gone at once. An access token that was issued before reads and controls until it expires, and ' +
        'changes nothing.',
    }),
    (c) => answer(c, endSession(c.var.context, c.var.caller, c.req.valid('param').sessionId)),
  )
  .openapi(
    route('delete', '/', {
      ...onSessions('End all of your sessions, or all others', schemas.endedSessionsSchema),
      description: 'As for a single one. With `keep=current` the session of this request goes on.',
      request: { query: schemas.endSessionsQuerySchema },
    }),
    (c) => answer(c, endSessions(c.var.context, c.var.caller, c.req.valid('query').keep === 'current')),
  );
