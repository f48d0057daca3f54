// Requests and answers of groups and scenes. Shapes only.
import { z } from '@hono/zod-openapi';
import { statusByError, type ErrorMessage } from '../error-status.ts';
import { positionSchema } from '../mqtt.ts';
import { controlBodySchema, sentParamsSchema } from './commands.ts';
import * as common from './common.ts';
import { tagSchema } from './devices.ts';

const { distinctSchema, objectPageSchema, objectSchema, strictSchema } = common;

/** Of any device: rights are decided whenever it is used. */
const deviceIdSchema = common.deviceIdSchema.max(64);
const head = {
  name: common.lineSchema(1, 100).openapi({ example: 'Ground floor' }),
  createdAt: common.instantSchema,
};
const { name } = head;

const deviceIdsSchema = distinctSchema(deviceIdSchema, 1, 500).nullable();
const productKeySchema = common.anyProductKeySchema.max(64).nullable();
const groupContent = z.object({
  deviceIds: deviceIdsSchema.openapi({ description: 'Either these or `tag`.', example: ['dev_8k2m4n6p'] }),
  tag: tagSchema.nullable().openapi({ description: 'The newest 500 devices that have it at the time.', example: null }),
  productKey: productKeySchema.openapi({ description: 'With `tag`: only of this product.', example: null }),
});
export type GroupContent = z.infer<typeof groupContent>;

export const groupBodySchema = strictSchema('GroupRequest', { name, ...groupContent.partial().shape });
export type GroupBody = z.infer<typeof groupBodySchema>;
export const groupChangeSchema = groupBodySchema.partial().openapi('GroupChange');

const group = { groupId: common.shortIdSchema, ...head, ...groupContent.shape };
export const groupSchema = objectSchema('Group', group);
export const groupPageSchema = objectPageSchema('ListedGroup', group);
export const deletedGroupSchema = objectSchema('DeletedGroup', { groupId: common.shortIdSchema });

const countText = '`unknown`: online without a position, or not to be asked. `offline`: wherever they were last.';
export const groupStateSchema = objectSchema('GroupState', {
  ...group,
  counts: z
    .record(z.enum(['up', 'middle', 'down', 'unknown', 'offline', 'forbidden']), z.int().min(0))
    .openapi({ description: countText, example: { up: 1, middle: 0, down: 0, unknown: 0, offline: 0, forbidden: 0 } }),
  devices: z.array(
    z.object({
      deviceId: common.deviceIdSchema,
      name: z.string().nullable().openapi({ example: 'Servo switch 0001' }),
      online: z.boolean(),
      position: positionSchema.nullable().openapi({ description: 'As it reported last.' }),
      refused: z
        .enum(Object.keys(statusByError) as [ErrorMessage, ...ErrorMessage[]])
        .optional()
        .openapi({ description: 'Why nothing is told of it.', example: 'forbidden' }),
    }),
  ),
});

const itemExample = { deviceId: 'dev_8k2m4n6p', command: { action: 'toggle', position: 'up' } };
const listOf = <Item extends z.ZodType>(item: Item) =>
  z
    .array(item)
    .min(1)
    .max(50)
    .openapi({ description: 'One for each device.', example: [itemExample] });
const settings = z.object({
  putBack: z.boolean().openapi({ description: 'Undone if it does not succeed whole. Default: false.', example: false }),
  deadlineSeconds: z.int().min(5).max(60).openapi({ description: 'So long it may take. Default: 30.', example: 30 }),
});
const sceneContent = settings.extend({
  items: listOf(z.object({ deviceId: deviceIdSchema, command: sentParamsSchema })),
});
export type SceneContent = z.infer<typeof sceneContent>;

// If the command is missing the answer is that of a control body without a parameter.
const itemSchema = z.strictObject({ deviceId: deviceIdSchema, command: controlBodySchema.optional() });
const items = listOf(itemSchema.openapi({ required: ['deviceId', 'command'] }));
export const sceneBodySchema = strictSchema('SceneRequest', { name, items, ...settings.partial().shape });
export type SceneBody = z.infer<typeof sceneBodySchema>;
export const sceneChangeSchema = sceneBodySchema.partial().openapi('SceneChange');

const scene = { sceneId: common.shortIdSchema, ...head, ...sceneContent.shape };
export const sceneSchema = objectSchema('Scene', scene);
export const scenePageSchema = objectPageSchema('ListedScene', scene);
export const deletedSceneSchema = objectSchema('DeletedScene', { sceneId: common.shortIdSchema });
