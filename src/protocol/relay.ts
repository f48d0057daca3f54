// Frames of the WebSocket relay (interface 6, decisions): what a client may send and what it is answered.
// Shapes and limits only; what a socket may see is decided in durable/relay-gateway.ts.
import { z } from 'zod';

export const maxRelayFrameBytes = 16 * 1024;

const deviceAuthSchema = z.object({
  action: z.literal('auth'),
  username: z.string().max(256),
  password: z.string().max(256),
});
const userAuthSchema = z.object({ action: z.literal('auth'), token: z.string().max(4096) });

export const relayRequestSchema = z.union([
  deviceAuthSchema,
  userAuthSchema,
  z.object({ action: z.literal('subscribe'), topic: z.string().max(256) }),
  z.object({ action: z.literal('unsubscribe'), topic: z.string().max(256) }),
  z.object({ action: z.literal('ping') }),
]);
export type RelayRequest = z.infer<typeof relayRequestSchema>;

export type RelayReply =
  | { action: 'auth' | 'subscribe' | 'unsubscribe'; topic?: string; code: number; message: string }
  | { action: 'error'; code: number; message: string }
  | { action: 'pong' };

/** What a subscriber is pushed, and nothing beside it: `payload` is the parsed JSON, or text where it is none. */
export const relayPushSchema = z.object({ topic: z.string(), payload: z.unknown() });
