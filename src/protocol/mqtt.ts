// Bodies of the device topics (contract 6), lenient as the field notes from field note 44 on ask. Shapes only: how a
// report is applied is decided in domain/.
import { z } from 'zod';

/** The last levels of a device's topics: `/sys/{productKey}/{deviceId}/{action}`. */
export const topicActions = {
  propertyPost: 'thing/event/property/post',
  propertySet: 'thing/service/property/set',
  propertySetReply: 'thing/service/property/set_reply',
  status: 'status',
  otaInform: 'thing/ota/inform',
  otaUpgrade: 'thing/ota/upgrade',
  otaProgress: 'thing/ota/progress',
  otaGet: 'thing/ota/get',
  otaData: 'thing/ota/data',
} as const;
export type TopicAction = (typeof topicActions)[keyof typeof topicActions];

/** JSON of a device or a relay client may nest objects and arrays this deep and have so many members in all. */
export const maxJsonDepth = 32;
export const maxJsonMembers = 1024;

export const positionSchema = z.enum(['up', 'middle', 'down']);
export type Position = z.infer<typeof positionSchema>;

export const propertyPostMethod = 'thing.event.property.post';
export const propertySetMethod = 'thing.service.property.set';
export const propertySetReplyMethod = 'thing.service.property.set_reply';

/** Known properties of a report; one with the wrong type is dropped alone (decision: messages). */
export const knownProperties = {
  position: positionSchema,
  angle: z.int(),
  wifi_rssi: z.int(),
} as const;

export function isKnownProperty(name: keyof typeof knownProperties, value: unknown): boolean {
  return knownProperties[name].safeParse(value).success;
}

/** A report as devices are asked to send it. Reading one is more lenient: see domain/json.ts. */
export const propertyPostSchema = z.object({
  method: z.literal(propertyPostMethod).optional(),
  id: z.string().optional(),
  params: z.looseObject(knownProperties).partial(),
  time: z.int().optional(),
});

/** What the service sends on property/set: `params` are exactly the control members received. */
export const propertySetSchema = z.object({
  method: z.literal(propertySetMethod),
  id: z.string().max(20),
  params: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])),
  time: z.int(),
});
export type PropertySet = z.infer<typeof propertySetSchema>;

export const propertySetReplySchema = z.object({
  method: z.literal(propertySetReplyMethod),
  id: z.union([z.string(), z.int()]),
  code: z.int().optional(),
});

export const statusSchema = z.object({ status: z.enum(['online', 'offline']), time: z.unknown().optional() });
