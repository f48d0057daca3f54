// Sharing devices over HTTP: members, and invitations as the one who is invited sees them. Parse, one service call, answer.
import { createRoute } from '@hono/zod-openapi';
import { inPersonFor, signedInFor } from '../../http/authenticate.ts';
import { readClientAddress } from '../../http/client-address.ts';
import { answer, deviceErrors, responsesOf } from '../../http/envelope.ts';
import { jsonBody } from '../../http/request-body.ts';
import { createRouter } from '../../http/router.ts';
import { deviceIdParamSchema, pageQuerySchema } from '../../protocol/http/devices.ts';
import {
  acceptedInvitationSchema,
  changeMemberBodySchema,
  deviceInvitationParamSchema,
  endedInvitationSchema,
  incomingPageSchema,
  invitationPageSchema,
  invitationParamSchema,
  invitationSchema,
  inviteBodySchema,
  memberPageSchema,
  memberParamSchema,
  memberSchema,
  removedMemberSchema,
} from '../../protocol/http/sharing.ts';
import {
  acceptInvitation,
  changeMember,
  declineInvitation,
  inviteMember,
  pageIncoming,
  pageInvitations,
  pageMembers,
  removeMember,
  withdrawInvitation,
} from '../../services/devices/sharing.ts';

const tags = ['Sharing'];
const mayShare = { tags, ...signedInFor('share') };
const mayAnswer = { tags, ...inPersonFor('answerOffers') };

const inviteRoute = createRoute({
  method: 'post',
  path: '/{deviceId}/members',
  summary: 'Invite somebody by email',
  description:
    'Whoever has, or makes, an account with this email finds the invitation there and may accept it. The answer does not ' +
    'tell whether there is one. A second invitation of the same email takes the place of the first; accepted by a member ' +
    'it changes the role.',
  ...mayShare,
  request: { params: deviceIdParamSchema, body: jsonBody(inviteBodySchema) },
  responses: responsesOf(invitationSchema, ...deviceErrors, 'too_many_members'),
});

const listMembersRoute = createRoute({
  method: 'get',
  path: '/{deviceId}/members',
  summary: 'List the members of a device',
  ...mayShare,
  request: { params: deviceIdParamSchema, query: pageQuerySchema },
  responses: responsesOf(memberPageSchema, ...deviceErrors),
});

const changeMemberRoute = createRoute({
  method: 'patch',
  path: '/{deviceId}/members/{userId}',
  summary: 'Change the role of a member',
  ...mayShare,
  request: { params: memberParamSchema, body: jsonBody(changeMemberBodySchema) },
  responses: responsesOf(memberSchema, ...deviceErrors, 'not_found'),
});

const removeMemberRoute = createRoute({
  method: 'delete',
  path: '/{deviceId}/members/{userId}',
  summary: 'Remove a member, or leave',
  description:
    'What the member follows of the device on the relay ends at once. Members remove themselves with this, too.',
  tags,
  ...signedInFor('share', 'leave'),
  request: { params: memberParamSchema },
  responses: responsesOf(removedMemberSchema, ...deviceErrors, 'not_found'),
});

const listInvitationsRoute = createRoute({
  method: 'get',
  path: '/{deviceId}/invitations',
  summary: 'List the open invitations of a device',
  ...mayShare,
  request: { params: deviceIdParamSchema, query: pageQuerySchema },
  responses: responsesOf(invitationPageSchema, ...deviceErrors),
});

const withdrawRoute = createRoute({
  method: 'delete',
  path: '/{deviceId}/invitations/{invitationId}',
  summary: 'Withdraw an invitation',
  ...mayShare,
  request: { params: deviceInvitationParamSchema },
  responses: responsesOf(endedInvitationSchema, ...deviceErrors, 'not_found'),
});

const incomingRoute = createRoute({
  method: 'get',
  path: '/',
  summary: 'List the devices that others invite you to, newest first',
  ...mayAnswer,
  request: { query: pageQuerySchema },
  responses: responsesOf(incomingPageSchema, 'invalid_request', 'unauthorized'),
});

const acceptRoute = createRoute({
  method: 'post',
  path: '/{invitationId}/accept',
  summary: 'Accept an invitation',
  ...mayAnswer,
  request: { params: invitationParamSchema },
  responses: responsesOf(
    acceptedInvitationSchema,
    'invalid_request',
    'unauthorized',
    'not_found',
    'device_not_found',
    'too_many_members',
  ),
});

const declineRoute = createRoute({
  method: 'delete',
  path: '/{invitationId}',
  summary: 'Decline an invitation',
  ...mayAnswer,
  request: { params: invitationParamSchema },
  responses: responsesOf(endedInvitationSchema, 'invalid_request', 'unauthorized', 'not_found'),
});

/** NaN for what is no id: nobody has it. */
const userIdOf = (text: string) => (/^[1-9]\d{0,14}$/.test(text) ? Number(text) : Number.NaN);

export const invitationRoutes = createRouter()
  .openapi(incomingRoute, async (c) =>
    answer(c, await pageIncoming(c.var.context, c.var.caller.userId, c.req.valid('query'))),
  )
  .openapi(acceptRoute, async (c) => {
    const { invitationId } = c.req.valid('param');
    return answer(c, await acceptInvitation(c.var.context, c.var.caller.userId, invitationId, readClientAddress(c)));
  })
  .openapi(declineRoute, async (c) => {
    const { invitationId } = c.req.valid('param');
    return answer(c, await declineInvitation(c.var.context, c.var.caller.userId, invitationId, readClientAddress(c)));
  });

export const deviceSharingRoutes = createRouter()
  .openapi(inviteRoute, async (c) => {
    const invited = { ...c.req.valid('json'), address: readClientAddress(c) };
    return answer(c, await inviteMember(c.var.context, c.var.caller, c.req.valid('param').deviceId, invited));
  })
  .openapi(listMembersRoute, async (c) =>
    answer(c, await pageMembers(c.var.context, c.var.caller, c.req.valid('param').deviceId, c.req.valid('query'))),
  )
  .openapi(changeMemberRoute, async (c) => {
    const { deviceId, userId } = c.req.valid('param');
    const changed = { ...c.req.valid('json'), userId: userIdOf(userId), address: readClientAddress(c) };
    return answer(c, await changeMember(c.var.context, c.var.caller, deviceId, changed));
  })
  .openapi(removeMemberRoute, async (c) => {
    const { deviceId, userId } = c.req.valid('param');
    const removed = { userId: userIdOf(userId), address: readClientAddress(c) };
    return answer(c, await removeMember(c.var.context, c.var.caller, deviceId, removed));
  })
  .openapi(listInvitationsRoute, async (c) =>
    answer(c, await pageInvitations(c.var.context, c.var.caller, c.req.valid('param').deviceId, c.req.valid('query'))),
  )
  .openapi(withdrawRoute, async (c) => {
    const { deviceId, invitationId } = c.req.valid('param');
    const withdrawn = { id: invitationId, address: readClientAddress(c) };
    return answer(c, await withdrawInvitation(c.var.context, c.var.caller, deviceId, withdrawn));
  });
