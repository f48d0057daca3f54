// Requests and answers of sharing a device: members and invitations. Shapes only.
import { z } from '@hono/zod-openapi';
import { deviceIdSchema, instantSchema, pageSchema, shortIdSchema } from './common.ts';
import { memberRoles } from '../vocabulary.ts';

const emailSchema = z.string().openapi({ format: 'email', example: 'grace@example.com' });
const roleSchema = z.enum(memberRoles).openapi({
  description: '`viewer` reads the device and follows it on the relay; `operator` controls it, too.',
  example: 'operator',
});

export const inviteBodySchema = z
  .strictObject({ email: emailSchema.trim().max(254).check(z.email()), role: roleSchema })
  .openapi('InviteRequest');

export const changeMemberBodySchema = z.strictObject({ role: roleSchema }).openapi('ChangeMemberRequest');

export const invitationSchema = z
  .object({
    invitationId: shortIdSchema,
    email: emailSchema,
    role: roleSchema,
    createdAt: instantSchema,
    expiresAt: instantSchema,
  })
  .openapi('Invitation');
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
export const blockedSenderSchema = z.object({ userId: userIdSchema }).openapi('BlockedSender');
export const blockedSenderPageSchema = pageSchema(
  z.object({ userId: userIdSchema, email: emailSchema }).openapi('ListedBlockedSender'),
).openapi('BlockedSenderPage');
export const blockedSenderParamSchema = z.object({ userId: z.string().openapi({ example: '42' }) });

export const memberSchema = z
  .object({ userId: userIdSchema, role: roleSchema, since: instantSchema })
  .openapi('Member');
export const memberPageSchema = pageSchema(memberSchema.extend({ email: emailSchema }).openapi('ListedMember')).openapi(
  'MemberPage',
);

export const removedMemberSchema = z.object({ userId: userIdSchema }).openapi('RemovedMember');
export const endedInvitationSchema = z.object({ invitationId: shortIdSchema }).openapi('EndedInvitation');
export const acceptedInvitationSchema = z
  .object({ deviceId: deviceIdSchema, role: roleSchema })
  .openapi('AcceptedInvitation');

export const memberParamSchema = z.object({ deviceId: deviceIdSchema, userId: z.string().openapi({ example: '42' }) });
export const deviceInvitationParamSchema = z.object({ deviceId: deviceIdSchema, invitationId: shortIdSchema });
export const invitationParamSchema = z.object({ invitationId: shortIdSchema });
