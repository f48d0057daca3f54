// Requests and answers about whose a device is: claim tokens, release, transfer, pairing window. Shapes only.
import { z } from '@hono/zod-openapi';
import {
  anyProductKeySchema,
  deviceIdSchema,
  deviceSNSchema,
  instantSchema,
  objectPageSchema,
  objectSchema,
  strictSchema,
} from './common.ts';
import { reactivationPolicies } from '../vocabulary.ts';
import { claimCodeSchema } from './products.ts';

const emailSchema = z.email().max(254).openapi({ example: 'buyer@example.com' });

export const claimTokenBodySchema = strictSchema('ClaimTokenRequest', {
  expiresIn: z.int().min(60).max(86_400).optional().openapi({ description: 'By default 900.', example: 900 }),
  deviceSN: deviceSNSchema.optional(),
  claimCode: claimCodeSchema.optional(),
  productKey: anyProductKeySchema.optional(),
});
export type ClaimTokenBody = z.infer<typeof claimTokenBodySchema>;

export const claimTokenSchema = objectSchema('ClaimToken', {
  token: z.string().openapi({ example: '7h3k9m2p5q8r4s6t1v0w', description: 'Shown this once.' }),
  apiUrl: z.string().openapi({ example: 'https://api.example.com/t/7h3k9m2p5q8r4s6t1v0w' }),
  expiresAt: instantSchema,
});

export const claimStateSchema = objectSchema('ClaimTokenState', {
  deviceId: deviceIdSchema.nullable().openapi({ description: 'Null before the device is yours.' }),
  expiresAt: instantSchema,
});

export const offerBodySchema = strictSchema('TransferRequest', { email: emailSchema });

export const offerSchema = objectSchema('Transfer', {
  deviceId: deviceIdSchema,
  email: emailSchema,
  expiresAt: instantSchema,
});

export const incomingOfferPageSchema = objectPageSchema('IncomingTransfer', {
  deviceId: deviceIdSchema,
  productKey: anyProductKeySchema,
  productName: z.string().openapi({ example: 'Servo switch' }),
  from: z.string().openapi({ description: 'E-mail of the owner.', example: 'seller@example.com' }),
  offeredAt: instantSchema,
  expiresAt: instantSchema,
});

const mustRenewSchema = z.boolean().openapi({ description: 'No password is left: it has to be activated again.' });

export const ownershipSchema = objectSchema('Ownership', {
  deviceId: deviceIdSchema,
  claimedAt: instantSchema.nullable(),
  pairingUntil: instantSchema.nullable().openapi({ description: 'Until when a pairing window is open.' }),
  transfer: z.object({ email: emailSchema, expiresAt: instantSchema }).nullable(),
  reactivation: z.enum(reactivationPolicies).openapi({ description: 'What it needs to activate again.' }),
  mustRenew: mustRenewSchema,
});

export const pairingWindowBodySchema = strictSchema('PairingWindowRequest', {
  anyNetwork: z.boolean().optional().openapi({ description: 'Admits networks other than yours.' }),
});

export const pairingWindowSchema = objectSchema('PairingWindow', {
  deviceId: deviceIdSchema,
  pairingUntil: instantSchema.nullable(),
});

export const openPairingWindowSchema = pairingWindowSchema
  .extend(claimTokenSchema.pick({ token: true, apiUrl: true }).shape)
  .openapi('OpenPairingWindow');

export const passedDeviceSchema = objectSchema('PassedDevice', { deviceId: deviceIdSchema });
export const acceptedDeviceSchema = passedDeviceSchema.extend({ mustRenew: mustRenewSchema }).openapi('AcceptedDevice');
