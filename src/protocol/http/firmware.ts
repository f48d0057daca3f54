// Requests and answers about keys, firmware, campaigns, and the update of one device. Shapes only.
import { z } from '@hono/zod-openapi';
import { manifestSchema, maxManifestBytes, versionSchema } from '../firmware.ts';
import * as words from '../vocabulary.ts';
import {
  deviceIdSchema,
  distinctSchema,
  instantSchema,
  objectPageSchema,
  objectSchema,
  orNull,
  pageSchema,
  shortIdSchema,
  strictSchema,
} from './common.ts';

const version = versionSchema.openapi({ example: '1.2.0' });
const keyId = z.string().openapi({ description: 'The begin of the SHA-256 of the key.', example: '3f8a1c0b9d2e4f67' });
const percent = z.number().min(0).max(100);

export const firmwareKeyBodySchema = strictSchema('FirmwareKeyRequest', {
  publicKey: z
    .string()
    .max(1_000)
    .openapi({ description: 'Ed25519 or P-256, in PEM.', example: '-----BEGIN PUBLIC KEY-----…' }),
});
export const firmwareKeySchema = objectSchema('FirmwareKey', {
  keyId,
  algorithm: z.enum(words.signatureAlgorithms),
  createdAt: instantSchema,
});
export const firmwareKeysSchema = z.object({ list: z.array(firmwareKeySchema) });

export const firmwareBodySchema = strictSchema('FirmwareRequest', {
  manifest: z
    .string()
    .refine((text) => new TextEncoder().encode(text).length <= maxManifestBytes, 'must have at most 1024 bytes')
    .openapi({ description: 'Exactly as it was signed.', example: '{"product":"servo-switch","version":"1.2.0",…}' }),
  signature: z
    .base64()
    .length(88)
    .endsWith('==')
    .openapi({
      description: 'Of these bytes: 64 bytes, of P-256 as r and s.',
      example: `${'q83vEjRW'.repeat(10)}q83vEg==`,
    }),
});

export const firmwareSchema = objectSchema('Firmware', {
  version,
  manifest: objectSchema('FirmwareManifest', manifestSchema.shape),
  keyId,
  createdAt: instantSchema,
  storedAt: instantSchema.nullable().openapi({ description: 'Since when its image is here.' }),
});
export const removedFirmwareSchema = objectSchema('RemovedFirmware', { version });
export const removedKeySchema = objectSchema('RemovedFirmwareKey', { keyId });
export const imageBody = {
  required: true,
  content: { 'application/octet-stream': { schema: z.string().openapi({ format: 'binary' }) } },
};
export const firmwareListSchema = z.object({ list: z.array(firmwareSchema) });

const waveSchema = z.union([
  z.strictObject({ devices: distinctSchema(deviceIdSchema.max(64), 1, 100) }),
  z.strictObject({
    percent: z
      .number()
      .gt(0)
      .max(100)
      .openapi({ description: 'Of all devices of the product, earlier waves included.', example: 1 }),
  }),
]);
type Waves = z.infer<typeof waveSchema>[];
const timeOfDay = z.string().regex(/^(?:[01]\d|2[0-3]):[0-5]\d$/, 'must be a time from 00:00 to 23:59');
const isSmall = ([first]: Waves) => first !== undefined && ('devices' in first || first.percent <= 1);
const grows = (waves: Waves) => {
  const percents = waves.flatMap((wave) => ('percent' in wave ? wave.percent : []));
  return percents.every((one, index) => index === 0 || one > (percents[index - 1] ?? 0));
};

export const campaignBodySchema = strictSchema('CampaignRequest', {
  version,
  waves: z
    .array(waveSchema)
    .min(1)
    .max(10)
    .refine(isSmall, 'must begin with named devices, or with at most 1 percent')
    .refine(grows, 'must grow')
    .openapi({ example: [{ devices: ['dev_8k2m4n6p'] }, { percent: 1 }, { percent: 100 }] }),
  stopAt: z
    .strictObject({
      failedPercent: percent.default(5).openapi({ description: 'Of a wave.' }),
      offlinePercent: percent.default(10).openapi({
        description: 'Of the devices that were updated, more than are away at other times.',
      }),
    })
    .prefault({})
    .openapi({ description: 'Beyond it the campaign pauses itself.' }),
  window: z
    .strictObject({ begin: timeOfDay, end: timeOfDay })
    .optional()
    .openapi({
      description: 'The time of day, in UTC, in which it is offered.',
      example: { begin: '01:00', end: '04:30' },
    }),
  from: instantSchema.optional().openapi({ description: 'It is offered from then on.' }),
  to: instantSchema.optional().openapi({ description: 'It is not offered any more from then on.' }),
  waitSeconds: z.int().min(0).max(604_800).default(600).openapi({ description: 'After a wave, before the next one.' }),
});
export type CampaignBody = z.infer<typeof campaignBodySchema>;

const outcomes = ['waiting', 'skipped', ...words.updateStates] as const;
export type CampaignOutcome = (typeof outcomes)[number];

export const campaignSchema = objectSchema('Campaign', {
  campaignId: shortIdSchema,
  version,
  state: z.enum(words.campaignStates),
  createdAt: instantSchema,
});
export const changedCampaignSchema = objectSchema('ChangedCampaign', { campaignId: shortIdSchema });
export const campaignPageSchema = objectPageSchema('Campaign', campaignSchema.shape);

export const campaignViewSchema = objectSchema('CampaignProgress', {
  ...campaignSchema.shape,
  pausedBecause: z.enum(words.pauseCauses).nullable(),
  endedAt: instantSchema.nullable(),
  order: campaignBodySchema.openapi('CampaignOrder'),
  wave: z.int().min(0).openapi({ description: 'The one under way, from 0.', example: 0 }),
  waves: z.array(
    z.object({
      devices: z.int().min(0).openapi({ example: 100 }),
      outcomes: z.record(z.string(), z.int().min(1)).openapi({
        description: 'How many devices are in each state.',
        example: { proved: 97, rolled_back: 1, offered: 2 },
      }),
      absent: z.int().min(0).openapi({ description: 'Are offered it, and offline: they hold up no wave.', example: 2 }),
      away: z.int().min(0).openapi({ description: 'Of the updated ones, how many are offline.', example: 1 }),
      usuallyAway: z
        .number()
        .openapi({ description: 'How many are at other times, by their days before.', example: 0.8 }),
    }),
  ),
  ...pageSchema(
    z.object({
      deviceId: deviceIdSchema,
      wave: z.int().min(0),
      state: z.enum(outcomes),
      reason: z.enum([...words.updateReasons, ...words.skippedReasons]).nullable(),
      since: instantSchema,
    }),
  ).shape,
});
export type CampaignView = z.infer<typeof campaignViewSchema>;

export const deviceFirmwareSchema = objectSchema('DeviceFirmware', {
  installed: orNull(
    objectSchema('InstalledFirmware', {
      version,
      slot: z.string().optional().openapi({ example: 'a' }),
      keys: z.array(keyId).optional().openapi({ description: 'That it trusts.' }),
      reportedAt: instantSchema,
    }),
  ).openapi({ description: 'By the word of the device.' }),
  update: orNull(
    objectSchema('Update', {
      campaignId: shortIdSchema,
      version,
      formerVersion: version.nullable(),
      state: z.enum(words.updateStates),
      reason: z.enum(words.updateReasons).nullable(),
      error: z.string().nullable().openapi({ description: 'What the device says of it.', example: 'flash_write' }),
      percent: z.int().min(0).max(100),
      security: z.boolean().openapi({ description: 'Relevant to security: it cannot be postponed.' }),
      endsAt: instantSchema.nullable().openapi({ description: 'When this state ends if nothing comes of it.' }),
      steps: z
        .array(z.object({ state: z.enum(words.updateStates), time: instantSchema }))
        .openapi({ description: 'When it reached each state last, in this order.' }),
    }),
  ),
});
export type DeviceFirmware = z.infer<typeof deviceFirmwareSchema>;
