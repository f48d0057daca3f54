// Frames of the WebSocket relay (contract 6, decision: relay): requests of clients and replies.
// Shapes and limits only; what a socket may see is decided in objects/relay/relay-gateway.ts.
import { z } from 'zod';

export const maxRelayFrameBytes = 16 * 1024;

const topicSchema = z.string().max(256);

export const relayRequestSchemas = {
  deviceAuth: z.object({ action: z.literal('auth'), username: z.string().max(256), password: z.string().max(256) }),
  userAuth: z.object({ action: z.literal('auth'), token: z.string().max(4096) }),
  keyAuth: z.object({ action: z.literal('auth'), keyId: z.string().max(256), apiKey: z.string().max(256) }),
  /** The former spelling. */
  oldKeyAuth: z.object({ action: z.literal('auth'), apiKey: z.string().max(256), apiSecret: z.string().max(256) }),
  subscribe: z.object({
    action: z.literal('subscribe'),
    topic: topicSchema,
    /** Push the present state first, before the reply. */
    snapshot: z.boolean().optional(),
  }),
  unsubscribe: z.object({ action: z.literal('unsubscribe'), topic: topicSchema }),
  publish: z.object({
    action: z.literal('publish'),
    topic: topicSchema,
    payload: z.unknown().refine((payload) => payload !== undefined),
  }),
  ping: z.object({ action: z.literal('ping') }),
};

export const relayRequestSchema = z.union(Object.values(relayRequestSchemas));
export type RelayRequest = z.infer<typeof relayRequestSchema>;

/** `retryAfterSeconds` comes with 503. */
const outcome = { code: z.int(), message: z.string(), retryAfterSeconds: z.int().optional() };
/** The topic as it was asked for; absent where the request held none that could be read. */
const topicOutcome = { topic: topicSchema.optional(), ...outcome };

export const relayReplySchemas = {
  auth: z.object({ action: z.literal('auth'), ...outcome }),
  subscribe: z.object({ action: z.literal('subscribe'), ...topicOutcome }),
  unsubscribe: z.object({ action: z.literal('unsubscribe'), ...topicOutcome }),
  publish: z.object({ action: z.literal('publish'), ...topicOutcome }),
  /** To a frame without a known action, and to a ping that failed. */
  error: z.object({ action: z.enum(['error', 'ping']), ...outcome }),
  pong: z.object({ action: z.literal('pong') }),
};
export type RelayReply = {
  [Name in keyof typeof relayReplySchemas]: z.infer<(typeof relayReplySchemas)[Name]>;
}[keyof typeof relayReplySchemas];

export const relayPushSchema = z.object({ topic: z.string(), payload: z.unknown() });

/** The last level of the topic on which users are told that a device's record changed. Nothing of MQTT uses it. */
export const recordTopic = 'record';
export const recordNoticeSchema = z.object({
  change: z.enum(['record_changed', 'deleted', 'members_changed']),
  time: z.int(),
});
export type RecordNotice = z.infer<typeof recordNoticeSchema>;

/** Comes unasked, behind pushes: a pong with its id says that everything before it was read. */
export const relayReadingCheckSchema = z.object({ action: z.literal('ping'), id: z.string() });
/** The answer to it, which is not replied to. Any other pong is a frame that cannot be read. */
export const relayReadingPongSchema = z.object({ action: z.literal('pong'), id: z.string().max(64) });
export type RelayReadingCheck = z.infer<typeof relayReadingCheckSchema>;

export type RevokeCause = 'deleted' | 'owner_changed' | 'disabled' | 'credentials_rotated';
