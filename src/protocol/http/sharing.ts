// Requests and answers of sharing a device: members and invitations. Shapes only.
import { z } from '@hono/zod-openapi';
import { deviceIdSchema, instantSchema, objectSchema, pageSchema, shortIdSchema, strictSchema } from './common.ts';
import { memberRoles } from '../vocabulary.ts';

const emailSchema = z.string().openapi({ format: 'email', example: 'grace@example.com' });
const roleSchema = z.enum(memberRoles).openapi({
  description: '`viewer` reads the device and follows it on the relay; `operator` controls it, too.',
  example: 'operator',
});

export const inviteBodySchema = strictSchema('InviteRequest', {
  email: emailSchema.trim().max(254).check(z.email()),
  role: roleSchema,
});

export const changeMemberBodySchema = strictSchema('ChangeMemberRequest', { role: roleSchema });

export const invitationSchema = objectSchema('Invitation', {
  invitationId: shortIdSchema,
  email: emailSchema,
  role: roleSchema,
  createdAt: instantSchema,
  expiresAt: instantSchema,
});
export const invitationPageSchema = pageSchema(invitationSchema).openapi('InvitationPage');

export const incomingPageSchema = pageSchema(
  invitationSchema
    .omit({ email: true })
    .extend({
      deviceId: deviceIdSchema,
      deviceName: z.string().openapi({ example: 'Hall light' }),
      invitedBy: emailSchema,
    })
    .openapi('IncomingInvitation'),
).openapi('IncomingInvitationPage');

const userIdSchema = z.int().openapi({ example: 42 });

export const blockedSenderBodySchema = inviteBodySchema.pick({ email: true }).openapi('BlockedSenderRequest');
export const blockedSenderSchema = objectSchema('BlockedSender', { userId: userIdSchema });
export const blockedSenderPageSchema = pageSchema(
  objectSchema('ListedBlockedSender', { userId: userIdSchema, email: emailSchema }),
).openapi('BlockedSenderPage');

export const memberSchema = objectSchema('Member', { userId: userIdSchema, role: roleSchema, since: instantSchema });
export const memberPageSchema = pageSchema(memberSchema.extend({ email: emailSchema }).openapi('ListedMember')).openapi(
  'MemberPage',
);

export const removedMemberSchema = objectSchema('RemovedMember', { userId: userIdSchema });
export const endedInvitationSchema = objectSchema('EndedInvitation', { invitationId: shortIdSchema });
export const acceptedInvitationSchema = objectSchema('AcceptedInvitation', {
  deviceId: deviceIdSchema,
  role: roleSchema,
});
