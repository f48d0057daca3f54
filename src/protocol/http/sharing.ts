// Requests and answers of sharing a device: members, invitations and guest links (decision: ownership). Shapes only.
import { z } from '@hono/zod-openapi';
import { controlBodySchema, sentParamsSchema } from './commands.ts';
import { deviceIdSchema, instantSchema, objectSchema, pageSchema, shortIdSchema, strictSchema } from './common.ts';
import { guestLinkStates, memberRoles } from '../vocabulary.ts';

const emailSchema = z.string().openapi({ format: 'email', example: 'grace@example.com' });
const roleSchema = z.enum(memberRoles).openapi({
  description: '`viewer` reads the device and follows it on the relay; `operator` controls it, too.',
  example: 'operator',
});

export const inviteBodySchema = strictSchema('InviteRequest', {
  email: emailSchema.trim().max(254).check(z.email()),
  role: roleSchema,
});
export type InviteBody = z.infer<typeof inviteBodySchema>;

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

export const guestLinkBodySchema = z
  .strictObject({
    // If it is missing the answer is that of a control body without a parameter.
    command: controlBodySchema.optional(),
    maxUses: z.int().min(1).optional().openapi({ description: 'By default, and at most, 1000.', example: 1 }),
    expiresAt: z.iso.datetime({ offset: true }).openapi({
      description: 'At most 30 days from now.',
      example: '2026-03-01T12:00:00.000Z',
    }),
  })
  .openapi('GuestLinkRequest', { required: ['command', 'expiresAt'] });
export type GuestLinkBody = z.infer<typeof guestLinkBodySchema>;

const guestLinkSchema = objectSchema('GuestLink', {
  linkId: shortIdSchema,
  command: sentParamsSchema,
  maxUses: z.int().openapi({ example: 1 }),
  uses: z.int().openapi({ description: 'Those that reached nobody do not count.', example: 0 }),
  state: z.enum(guestLinkStates).openapi({ description: '`ended`: the device was disabled.', example: 'open' }),
  createdAt: instantSchema,
  expiresAt: instantSchema,
  lastUsedAt: instantSchema.nullable(),
});

export const newGuestLinkSchema = guestLinkSchema
  .extend({
    url: z.string().openapi({
      description: 'The page with the button. Shown this once.',
      example: 'https://api.example.com/g/8k2m4n6p3h5k7m9p2q4r6s8tYw3mN8pQ2rS6tV9xB4cD7fG1hJ',
    }),
  })
  .openapi('NewGuestLink');

export const guestLinkPageSchema = pageSchema(guestLinkSchema).openapi('GuestLinkPage');

export const revokedGuestLinkSchema = objectSchema('RevokedGuestLink', { linkId: shortIdSchema });
