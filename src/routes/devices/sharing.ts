// Sharing devices over HTTP: members, and invitations as the one who is invited sees them. Parse, one service call, answer.
import { inPersonFor, signedInFor } from '../../http/authenticate.ts';
import { answer, deviceErrors, responsesOf, signedInErrors } from '../../http/envelope.ts';
import { jsonBody, createRouter, routesAbout } from '../../http/router.ts';
import { deviceIdParamSchema, pageQuerySchema } from '../../protocol/http/devices.ts';
import * as schemas from '../../protocol/http/sharing.ts';
import * as sharing from '../../services/devices/sharing.ts';

const route = routesAbout('Sharing');
const mayShare = signedInFor('share');
const mayAnswer = inPersonFor('answerOffers');
const answerErrors = [...signedInErrors, 'not_found'] as const;
const invitingErrors = ['email_not_verified', 'too_many_members', 'too_many_invitations'] as const;

export const invitationRoutes = createRouter()
  .openapi(
    route('get', '/', {
      summary: 'List the devices that others invite you to, newest first',
      ...mayAnswer,
      request: { query: pageQuerySchema },
      responses: responsesOf(schemas.incomingPageSchema, ...signedInErrors),
    }),
    (c) => answer(c, sharing.pageIncoming(c.var.context, c.var.caller.userId, c.req.valid('query'))),
  )
  .openapi(
    route('post', '/{invitationId}/accept', {
      summary: 'Accept an invitation',
      ...mayAnswer,
      request: { params: schemas.invitationParamSchema },
      responses: responsesOf(schemas.acceptedInvitationSchema, ...answerErrors, 'device_not_found', 'too_many_members'),
    }),
    (c) => answer(c, sharing.acceptInvitation(c.var.context, c.var.caller.userId, c.req.valid('param').invitationId)),
  )
  .openapi(
    route('delete', '/{invitationId}', {
      summary: 'Decline an invitation',
      ...mayAnswer,
      request: { params: schemas.invitationParamSchema },
      responses: responsesOf(schemas.endedInvitationSchema, ...answerErrors),
    }),
    (c) => answer(c, sharing.declineInvitation(c.var.context, c.var.caller.userId, c.req.valid('param').invitationId)),
  );

export const blockedSenderRoutes = createRouter()
  .openapi(
    route('get', '/', {
      summary: 'List the senders that you block',
      ...mayAnswer,
      request: { query: pageQuerySchema },
      responses: responsesOf(schemas.blockedSenderPageSchema, ...signedInErrors),
    }),
    (c) => answer(c, sharing.pageBlocked(c.var.context, c.var.caller.userId, c.req.valid('query'))),
  )
  .openapi(
    route('post', '/', {
      summary: 'Block a sender who invites you or offers you a device',
      description: 'You are shown none of their invitations and offers any more. They are told nothing.',
      ...mayAnswer,
      request: { body: jsonBody(schemas.blockedSenderBodySchema) },
      responses: responsesOf(schemas.blockedSenderSchema, ...answerErrors),
    }),
    (c) => answer(c, sharing.block(c.var.context, c.var.caller.userId, c.req.valid('json').email)),
  )
  .openapi(
    route('delete', '/{userId}', {
      summary: 'Unblock a sender',
      ...mayAnswer,
      request: { params: schemas.blockedSenderParamSchema },
      responses: responsesOf(schemas.blockedSenderSchema, ...answerErrors),
    }),
    (c) => answer(c, sharing.unblock(c.var.context, c.var.caller.userId, c.req.valid('param').userId)),
  );

export const deviceSharingRoutes = createRouter()
  .openapi(
    route('post', '/{deviceId}/members', {
      summary: 'Invite somebody by email',
      description:
        'Everybody who has, or makes, an account with this email finds the invitation there and may accept it. The answer does not ' +
        'tell whether there is one. A second invitation of the same email takes the place of the first; accepted by a member ' +
        'it changes the role.',
      ...mayShare,
      request: { params: deviceIdParamSchema, body: jsonBody(schemas.inviteBodySchema) },
      responses: responsesOf(schemas.invitationSchema, ...deviceErrors, ...invitingErrors),
    }),
    (c) => {
      const { deviceId } = c.req.valid('param');
      return answer(c, sharing.inviteMember(c.var.context, c.var.caller, deviceId, c.req.valid('json')));
    },
  )
  .openapi(
    route('get', '/{deviceId}/members', {
      summary: 'List the members of a device',
      ...mayShare,
      request: { params: deviceIdParamSchema, query: pageQuerySchema },
      responses: responsesOf(schemas.memberPageSchema, ...deviceErrors),
    }),
    (c) =>
      answer(c, sharing.pageMembers(c.var.context, c.var.caller, c.req.valid('param').deviceId, c.req.valid('query'))),
  )
  .openapi(
    route('patch', '/{deviceId}/members/{userId}', {
      summary: 'Change the role of a member',
      ...mayShare,
      request: { params: schemas.memberParamSchema, body: jsonBody(schemas.changeMemberBodySchema) },
      responses: responsesOf(schemas.memberSchema, ...deviceErrors, 'not_found'),
    }),
    (c) => answer(c, sharing.changeMember(c.var.context, c.var.caller, c.req.valid('param'), c.req.valid('json').role)),
  )
  .openapi(
    route('delete', '/{deviceId}/members/{userId}', {
      summary: 'Remove a member, or leave',
      description:
        'What the member follows of the device on the relay ends at once. Members remove themselves with this, too.',
      ...signedInFor('share', 'leave'),
      request: { params: schemas.memberParamSchema },
      responses: responsesOf(schemas.removedMemberSchema, ...deviceErrors, 'not_found'),
    }),
    (c) => answer(c, sharing.removeMember(c.var.context, c.var.caller, c.req.valid('param'))),
  )
  .openapi(
    route('get', '/{deviceId}/invitations', {
      summary: 'List the open invitations of a device',
      ...mayShare,
      request: { params: deviceIdParamSchema, query: pageQuerySchema },
      responses: responsesOf(schemas.invitationPageSchema, ...deviceErrors),
    }),
    (c) =>
      answer(
        c,
        sharing.pageInvitations(c.var.context, c.var.caller, c.req.valid('param').deviceId, c.req.valid('query')),
      ),
  )
  .openapi(
    route('delete', '/{deviceId}/invitations/{invitationId}', {
      summary: 'Withdraw an invitation',
      ...mayShare,
      request: { params: schemas.deviceInvitationParamSchema },
      responses: responsesOf(schemas.endedInvitationSchema, ...deviceErrors, 'not_found'),
    }),
    (c) => answer(c, sharing.withdrawInvitation(c.var.context, c.var.caller, c.req.valid('param'))),
  );
