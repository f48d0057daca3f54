// Senders whom a user blocks: parse, one service call, answer. What they send is in routes/devices.
import { inPersonFor } from '../../http/authenticate.ts';
import { answer, responsesOf, signedInErrors } from '../../http/envelope.ts';
import { jsonBody } from '../../http/request-body.ts';
import { createRouter, routesAbout } from '../../http/router.ts';
import { pageQuerySchema } from '../../protocol/http/devices.ts';
import * as schemas from '../../protocol/http/users.ts';
import { block, pageBlocked, unblock } from '../../services/accounts/blocked-senders.ts';

const route = routesAbout('Sharing');
const onOffers = inPersonFor('answerOffers');

export const blockedSenderRoutes = createRouter()
  .openapi(
    route('get', '/', {
      summary: 'List the senders that you block',
      ...onOffers,
      request: { query: pageQuerySchema },
      responses: responsesOf(schemas.blockedSenderPageSchema, ...signedInErrors),
    }),
    (c) => answer(c, pageBlocked(c.var.context, c.var.caller.userId, c.req.valid('query'))),
  )
  .openapi(
    route('post', '/', {
      summary: 'Block a sender who invites you or offers you a device',
      description: 'You are shown none of their invitations and offers any more. They are told nothing.',
      ...onOffers,
      request: { body: jsonBody(schemas.blockedSenderBodySchema) },
      responses: responsesOf(schemas.blockedSenderSchema, ...signedInErrors, 'not_found'),
    }),
    (c) => answer(c, block(c.var.context, c.var.caller.userId, c.req.valid('json').email)),
  )
  .openapi(
    route('delete', '/{userId}', {
      summary: 'Unblock a sender',
      ...onOffers,
      request: { params: schemas.blockedSenderParamSchema },
      responses: responsesOf(schemas.blockedSenderSchema, ...signedInErrors, 'not_found'),
    }),
    (c) => answer(c, unblock(c.var.context, c.var.caller.userId, c.req.valid('param').userId)),
  );
