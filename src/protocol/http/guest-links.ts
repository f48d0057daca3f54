// Requests and answers of guest links (decision: ownership). Shapes only.
import { z } from '@hono/zod-openapi';
import { instantSchema, objectSchema, pageSchema, shortIdSchema } from './common.ts';
import { controlBodySchema, sentParamsSchema } from './commands.ts';
import { guestLinkStates } from '../vocabulary.ts';

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
