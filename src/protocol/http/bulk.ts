// Requests and answers of commands for many devices, and of scenes that are run. Shapes only.
import { z } from '@hono/zod-openapi';
import { commandStates } from '../vocabulary.ts';
import { commandSchema, controlBodySchema, secondsSchema } from './commands.ts';
import * as common from './common.ts';
import { tagSchema } from './devices.ts';

const { deviceIdSchema, objectSchema, shortIdSchema, strictSchema } = common;

const keyText = 'The same key of a user within 7 days is the same run.';
const keySchema = z.string().regex(/^[\x20-\x7e]{1,64}$/, 'must be 1 to 64 printable characters');
const idempotencyKey = keySchema.optional().openapi({ description: keyText });
const inFlightText = 'So many commands are under way at the same time.';
const settings = {
  command: controlBodySchema.optional(),
  dryRun: z.boolean().default(false).openapi({ description: 'Says of each device whether it would take the command.' }),
  maxInFlight: z.int().min(1).max(500).default(100).openapi({ description: inFlightText }),
  idempotencyKey,
};

export const bulkBodySchema = strictSchema('BulkRequest', {
  devices: common
    .distinctSchema(deviceIdSchema.max(64), 1, 500)
    .optional()
    .openapi({ example: ['dev_8k2m4n6p'] }),
  groupId: z.string().optional().openapi({ description: 'In place of `devices`.' }),
  tag: tagSchema.optional().openapi({ description: 'In place of `devices`: the newest 500 devices that have it.' }),
  productKey: z.string().optional().openapi({ description: 'With `tag`: only of this product.' }),
  ...settings,
}).openapi({ required: ['command'] });
export type BulkBody = z.infer<typeof bulkBodySchema>;

export const fleetBodySchema = strictSchema('FleetRequest', settings).openapi({ required: ['command'] });
export type FleetBody = z.infer<typeof fleetBodySchema>;
export const sceneRunSchema = strictSchema('SceneRun', { idempotencyKey });

export const bulkReceiptSchema = objectSchema('BulkReceipt', {
  bulkId: shortIdSchema,
  total: z.int().min(0).openapi({ description: 'Devices; of a product, those listed so far.', example: 12 }),
});

const waitText = 'Holds the answer until the run is settled, or for this many seconds.';
export const bulkQuerySchema = z.object({ ...common.pageQuery, wait: secondsSchema(10, waitText, 5) });

const outcomeSchema = z
  .enum([...commandStates, 'under_way', 'refused', 'unknown', 'would_take'])
  .exclude(['accepted', 'sent'])
  .openapi({
    description:
      '`waiting`: not begun. `under_way`: given, and not final. `refused`: the device did not take it, for `reason`. `unknown`: the ' +
      'device could not be asked any more, or it is not known whether the command reached it. `would_take`: of a dry run. ' +
      'Others: the final state of the command.',
    example: 'confirmed',
  });
export type BulkOutcome = z.infer<typeof outcomeSchema>;

const itemSchema = objectSchema('BulkItem', {
  deviceId: deviceIdSchema,
  outcome: outcomeSchema,
  reason: z.string().nullable().openapi({ description: 'Why it ended without success.', example: null }),
  command: common.orNull(commandSchema).openapi({ description: 'As the device told last.' }),
});

const sceneSchema = objectSchema('BulkScene', {
  sceneId: shortIdSchema,
  name: z.string().openapi({ example: 'Evening' }),
  isComplete: z.boolean().nullable().openapi({ description: 'Null: not over.', example: true }),
  missing: z.array(deviceIdSchema).openapi({ description: 'Devices that were not confirmed in time.', example: [] }),
  putBack: z.array(itemSchema).openapi({ description: 'Commands that undo the scene.', example: [] }),
});

export const bulkSchema = common
  .pageSchema(itemSchema)
  .extend({
    bulkId: shortIdSchema,
    state: z.enum(['running', 'paused', 'settled']),
    dryRun: z.boolean(),
    createdAt: common.instantSchema,
    summary: z.partialRecord(outcomeSchema, z.int()).openapi({ example: { confirmed: 12 } }),
    listed: z.boolean().openapi({ description: 'False: devices of the product are still being listed.' }),
    scene: common.orNull(sceneSchema).openapi({ description: 'Null: no scene.' }),
  })
  .openapi('Bulk');
export type BulkView = z.infer<typeof bulkSchema>;

export const bulkChangeSchema = strictSchema('BulkChange', { paused: z.boolean().openapi({ example: true }) });
export const changedBulkSchema = objectSchema('ChangedBulk', { bulkId: shortIdSchema, paused: z.boolean() });
