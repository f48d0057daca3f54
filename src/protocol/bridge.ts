// The protocol between the Worker and broker-bridge: batches up over HTTP, frames both ways on the bridge's WebSocket.
// Beside `mqtt-codec` the only file of `src` that broker-bridge imports. Schemas and constants.
import { z } from 'zod';

export const uplinkPath = '/bridge/uplink';
export const linkPath = '/bridge/link';

/** Limits of a batch. Each device costs up to two calls, which must fit into the calls of one request. */
export const maxBatchItems = 1000;
export const maxBatchDevices = 250;
export const maxBatchBytes = 1024 * 1024;

/** Devices of one batch whose dropped messages are counted. */
export const maxDroppedCounts = 50;

/** What a message of a device may have. The bridge keeps the head of a longer one in its dead letters and does not send that. */
export const maxPayloadBytes = 16 * 1024;

export const uplinkFilters = [
  '/sys/+/+/thing/event/property/post',
  '/sys/+/+/thing/service/property/set_reply',
  '/sys/+/+/status',
  '/sys/+/+/thing/ota/inform',
  '/sys/+/+/thing/ota/progress',
  '/sys/+/+/thing/ota/get',
] as const;

/** A new spool needs a new name, because `seq` starts again with it. */
const spoolIdSchema = z.string().regex(/^[A-Za-z0-9._-]{1,80}$/);

/** `seq`: the spool's number, the same at every retry. `receivedAtMs`: the bridge's clock. */
export const uplinkItemSchema = z.object({
  seq: z.int().positive(),
  topic: z.string().max(1024),
  /** The payload as text if it is valid UTF-8, else base64 in `payloadBase64`; neither if it is too large. */
  payload: z.string().optional(),
  payloadBase64: z.string().optional(),
  /** MQTT DUP as the broker sent it: this delivery may be a repetition of an earlier one. */
  dup: z.literal(true).optional(),
  /** With `dup`: the `seq` of the same delivery (topic, payload, packet id, session) in this spool. */
  redeliveryOf: z.int().positive().optional(),
  /** With `dup`: no other bridge read from the broker session. Without `redeliveryOf` the message is then new. */
  soleReader: z.literal(true).optional(),
  retain: z.boolean().optional(),
  receivedAtMs: z.int().nonnegative(),
});
export type UplinkItem = z.infer<typeof uplinkItemSchema>;

/** `items` are validated one by one, so that a malformed one does not cost the others. */
export const uplinkBatchSchema = z.object({
  spoolId: spoolIdSchema,
  sentAtMs: z.int().nonnegative(),
  /**
   * Messages dropped because their device sends too many, since its last count: one count a minute for a device at most.
   * Absent from a batch without counts, as nearly all are.
   */
  dropped: z
    .array(z.object({ topic: z.string().max(1024), count: z.int().positive() }))
    .max(maxDroppedCounts)
    .optional(),
  items: z.array(z.unknown()).min(1).max(maxBatchItems),
});
export type UplinkBatch = z.infer<typeof uplinkBatchSchema>;

/** A reason of `rejected`: the device sends too many. The bridge forgets such a message, without a dead letter. */
export const droppedReason = 'too_many_messages';

/** `accepted`: in effect. `rejected`: never will be. `retry`: send it and later items of the device again. */
const uplinkResultSchema = z.object({
  seq: z.int(),
  result: z.enum(['accepted', 'rejected', 'retry']),
  reason: z.string().optional(),
});
export type UplinkResult = z.infer<typeof uplinkResultSchema>;

export const uplinkAnswerSchema = z.object({
  code: z.literal(200),
  data: z.object({ results: z.array(uplinkResultSchema) }),
});

/** Reasons with which the Worker closes a bridge's WebSocket, code 1008, that the bridge has to act on. */
export const linkCloseReasons = {
  replaced: 'replaced by a newer connection of the same bridge',
  id_in_use: 'another bridge has this id',
  other_session: 'the active bridge has another MQTT client id',
} as const;

export const maxReplyLength = 16_384;
/** A reason of `retry`: the device's object is well and does not take this very message. */
export const messageFailed = 'message_failed';

const stallReasonSchema = z.enum([
  'worker_unavailable',
  'secret_refused',
  'devices_not_served',
  'spool_unreadable',
  /** The disk is full or read-only, or the spool cannot be opened: the bridge takes no message from the broker. */
  'spool_full',
  'dead_letters_unwritable',
]);
export type StallReason = z.infer<typeof stallReasonSchema>;
const stallSchema = z.object({ reason: stallReasonSchema, sinceMs: z.int().nonnegative() });
export type UplinkStall = z.infer<typeof stallSchema>;

/**
 * The bridge's present connection to the broker. `name` is a digest of the client id, under which the broker keeps the session, and
 * `isPresent` whether it still had one: a broker that forgot this one has forgotten all of them. `readUntilMsAgo`: when
 * the session was last known to be there before this connection.
 */
const brokerSessionSchema = z.object({
  name: z.string().min(1).max(256),
  connectionId: z.string().min(1).max(64),
  isPresent: z.boolean(),
  readUntilMsAgo: z.int().nonnegative(),
});
export type BrokerSession = z.infer<typeof brokerSessionSchema>;

export const linkPing = 'ping';
export const linkPong = 'pong';

export const bridgeFrameSchema = z.discriminatedUnion('type', [
  /**
   * First frame. `bridgeId` survives restarts of a bridge. `instanceId` does not, because a new process does not know what
   * the former one has published.
   */
  z.object({
    type: z.literal('hello'),
    bridgeId: spoolIdSchema,
    instanceId: spoolIdSchema,
    /** The spool it sends from. Two spools cannot have one `bridgeId` at the same time. */
    spoolId: spoolIdSchema,
    /** Digest of the MQTT client id. Bridges of one system have the same, and with it the same session at the broker. */
    sessionDigest: z.string().max(64),
    brokerConnected: z.boolean(),
    session: brokerSessionSchema.optional(),
  }),
  z.object({ type: z.literal('broker'), connected: z.boolean(), session: brokerSessionSchema.optional() }),
  /** The bridge's uplink stands still, by the bridge's clock, or moves again; before the first such frame it moves. */
  z.object({ type: z.literal('uplink'), stall: stallSchema.nullable() }),
  /** Outcome of a publish. `hasSubscribers` is false after reason 16 of MQTT 5, null if the broker did not say. */
  z.object({
    type: z.literal('published'),
    id: z.string(),
    hasSubscribers: z.boolean().nullable(),
    /** The message that a publish with `reply` waited for. Absent if none came in time. */
    reply: z.string().max(maxReplyLength).optional(),
  }),
  /**
   * `broker_disconnected` and `standby`: nothing left the bridge, another one may publish it. `cancelled`: it was sent
   * and the connection ended before the broker answered, so the outcome is unknown; it must not be tried again.
   */
  z.object({
    type: z.literal('not-published'),
    id: z.string(),
    reason: z.enum(['broker_disconnected', 'expired', 'refused', 'standby', 'invalid', 'cancelled']),
  }),
]);
export type BridgeFrame = z.infer<typeof bridgeFrameSchema>;
export type NotPublishedReason = Extract<BridgeFrame, { type: 'not-published' }>['reason'];

export const workerFrameSchema = z.discriminatedUnion('type', [
  /** Answers `hello` and tells each change. `nowMs`: the Worker's clock. `resumes`: no other instance was active meanwhile. */
  z.object({ type: z.literal('role'), nowMs: z.int(), role: z.enum(['active', 'standby']), resumes: z.boolean() }),
  /**
   * Publish at QoS 1, never retained, not after `expiresAtMs`. `messageExpirySeconds` is MQTT 5's, for the broker,
   * counted from this frame on.
   * The same `id` may come twice (after a lost link): answer from memory, publish once.
   */
  z.object({
    type: z.literal('publish'),
    id: z.string(),
    topic: z.string(),
    payload: z.string(),
    expiresAtMs: z.int(),
    messageExpirySeconds: z.int().positive(),
    /** Report the first message on this topic that contains this text, which comes after the publish. */
    reply: z.object({ topic: z.string(), containing: z.string() }).optional(),
  }),
]);
export type WorkerFrame = z.infer<typeof workerFrameSchema>;
export type PublishFrame = Extract<WorkerFrame, { type: 'publish' }>;
