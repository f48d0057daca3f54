// Sharing devices over HTTP: members, guest links as an owner sees them (guest-pages.ts is what a guest sees), and invitations as the
// one who is invited sees them. Parse, one service call, answer.
import type { Context } from 'hono';
import { inPersonFor, signedInFor } from '../../http/authenticate.ts';
import { answer, commandErrors, declaring, deviceErrors, signedInErrors } from '../../http/envelope.ts';
import { type AppEnv, jsonBody, createRouter, routesAbout, paged } from '../../http/router.ts';
import * as schemas from '../../protocol/http/sharing.ts';
import { makeGuestLink, pageGuestLinks, revokeGuestLink } from '../../services/devices/guest-links.ts';
import * as sharing from '../../services/devices/sharing.ts';

const route = routesAbout('Sharing');
const mayShare = declaring(signedInFor('share'), ...deviceErrors);
const mayGive = declaring(signedInFor('share'), ...commandErrors, 'too_many_guest_links');
const mayShareOrLeave = declaring(signedInFor('share', 'leave'), ...deviceErrors);
const mayAnswer = declaring(inPersonFor('answerOffers'), ...signedInErrors);
const acceptErrors = ['not_found', 'device_not_found', 'too_many_members'] as const;
const invitingErrors = ['email_not_verified', 'too_many_members', 'too_many_invitations'] as const;

const of = (c: Context<AppEnv>) => sharing.sharingOf(c.var.context, c.var.caller, c.req.param('deviceId') ?? '');

export const invitationRoutes = createRouter()
  .openapi(
    route('get', '/', {
      ...paged(mayAnswer('List the devices that others invite you to, newest first', schemas.incomingPageSchema)),
    }),
    (c) => answer(c, sharing.pageIncoming(c.var.context, c.var.caller.userId, c.req.valid('query'))),
  )
  .openapi(
    route('post', '/{invitationId}/accept', {
      ...mayAnswer('Accept an invitation', schemas.acceptedInvitationSchema, ...acceptErrors),
    }),
    (c) => answer(c, sharing.acceptInvitation(c.var.context, c.var.caller.userId, c.req.valid('param').invitationId)),
  )
  .openapi(
    route('delete', '/{invitationId}', mayAnswer('Decline an invitation', schemas.endedInvitationSchema, 'not_found')),
    (c) => answer(c, sharing.declineInvitation(c.var.context, c.var.caller.userId, c.req.valid('param').invitationId)),
  );

export const blockedSenderRoutes = createRouter()
  .openapi(
    route('get', '/', paged(mayAnswer('List the senders that you block', schemas.blockedSenderPageSchema))),
    (c) => answer(c, sharing.pageBlocked(c.var.context, c.var.caller.userId, c.req.valid('query'))),
  )
  .openapi(
    route('post', '/', {
      ...mayAnswer('Block a sender who invites you or offers you a device', schemas.blockedSenderSchema, 'not_found'),
      description: 'You are shown none of their invitations and offers any more. They are told nothing.',
      request: { body: jsonBody(schemas.blockedSenderBodySchema) },
    }),
    (c) => answer(c, sharing.block(c.var.context, c.var.caller.userId, c.req.valid('json').email)),
  )
  .openapi(route('delete', '/{userId}', mayAnswer('Unblock a sender', schemas.blockedSenderSchema, 'not_found')), (c) =>
    answer(c, sharing.unblock(c.var.context, c.var.caller.userId, c.req.valid('param').userId)),
  );

export const deviceSharingRoutes = createRouter()
  .openapi(
    route('post', '/{deviceId}/members', {
      ...mayShare('Invite somebody by email', schemas.invitationSchema, ...invitingErrors),
      description:
        'Everybody who has, or makes, an account with this email finds the invitation there and may accept it. The answer does not ' +
        'tell whether there is one. A second invitation of the same email takes the place of the first; accepted by a member ' +
        'it changes the role.',
      request: { body: jsonBody(schemas.inviteBodySchema) },
    }),
    (c) => answer(c, of(c).invite(c.req.valid('json'))),
  )
  .openapi(
    route('get', '/{deviceId}/members', paged(mayShare('List the members of a device', schemas.memberPageSchema))),
    (c) => answer(c, of(c).pageMembers(c.req.valid('query'))),
  )
  .openapi(
    route('patch', '/{deviceId}/members/{userId}', {
      ...mayShare('Change the role of a member', schemas.memberSchema, 'not_found'),
      request: { body: jsonBody(schemas.changeMemberBodySchema) },
    }),
    (c) => answer(c, of(c).change(c.req.valid('param').userId, c.req.valid('json').role)),
  )
  .openapi(
    route('delete', '/{deviceId}/members/{userId}', {
      ...mayShareOrLeave('Remove a member, or leave', schemas.removedMemberSchema, 'not_found'),
      description:
        'What the member follows of the device on the relay ends at once. Members remove themselves with this, too.',
    }),
    (c) => answer(c, of(c).remove(c.req.valid('param').userId)),
  )
  .openapi(
    route('get', '/{deviceId}/invitations', {
      ...paged(mayShare('List the open invitations of a device', schemas.invitationPageSchema)),
    }),
    (c) => answer(c, of(c).pageInvitations(c.req.valid('query'))),
  )
  .openapi(
    route('delete', '/{deviceId}/invitations/{invitationId}', {
      ...mayShare('Withdraw an invitation', schemas.endedInvitationSchema, 'not_found'),
    }),
    (c) => answer(c, of(c).withdraw(c.req.valid('param').invitationId)),
  )
  .openapi(
    route('post', '/{deviceId}/guest-links', {
      ...mayGive('Make a guest link: an address that sends one command', schemas.newGuestLinkSchema),
      description:
        'Everybody who opens the address sees one button; pressing it sends the command. Nothing else can be done with it, and no ' +
        'account is needed. It ends when it is used up, has expired or is revoked, when the device is disabled, released, ' +
        'transferred or deleted. An API key needs `control` as well, and the link ends with the key.',
      request: { body: jsonBody(schemas.guestLinkBodySchema) },
    }),
    (c) => answer(c, makeGuestLink(c.var.context, c.var.caller, c.req.valid('param').deviceId, c.req.valid('json'))),
  )
  .openapi(
    route('get', '/{deviceId}/guest-links', {
      ...paged(mayShare('List the guest links of a device, newest first', schemas.guestLinkPageSchema)),
      description:
        'Links that have ended stay in the list until the next one is made. Each use is in the events of the device.',
    }),
    (c) => answer(c, pageGuestLinks(c.var.context, c.var.caller, c.req.valid('param').deviceId, c.req.valid('query'))),
  )
  .openapi(
    route('delete', '/{deviceId}/guest-links/{linkId}', {
      ...mayShare('Revoke a guest link', schemas.revokedGuestLinkSchema, 'not_found'),
    }),
    (c) => answer(c, revokeGuestLink(c.var.context, c.var.caller, c.req.valid('param'))),
  );
