// What goes over one direct connection: the answers to the packets of one wake-up, what they say to others, and messages for
// the device. Writes no state and decides nothing about the device.
import { pubackCodeOf } from '../../../domain/direct/answer-codes.ts';
import { grantedQos, notePublished, type DirectSession, type DirectStep } from '../../../domain/direct/session.ts';
import type { DirectTaken } from '../../../domain/device/core/events.ts';
import { droppedReason } from '../../../protocol/bridge.ts';
import type { TopicAction } from '../../../protocol/mqtt.ts';
import { join } from '../../../protocol/mqtt-codec/byte-cursor.ts';
import { encodePuback, encodePublish } from '../../../protocol/mqtt-codec/server-packets.ts';
import type { DirectConnection } from '../../mqtt/connection.ts';
import type { RelayMessage } from '../../calls/push-to-relays.ts';
import { directLimits } from '../../../domain/direct/direct-limits.ts';

export function answer(
  connection: DirectConnection,
  step: DirectStep<TopicAction>,
  outcome: DirectTaken | undefined,
): void {
  const { level } = step.session;
  const parts = step.replies.map((reply) =>
    reply.kind === 'bytes'
      ? reply.bytes
      : encodePuback(level, reply.packetId, pubackCodeOf(reasonOf(outcome, reply.message))),
  );
  const [first] = parts;
  if (first !== undefined) connection.send(parts.length === 1 ? first : join(parts));
}

/** Subscribers get what the device sent, also what the service cannot read, but nothing of too many. */
export function sortMessages(
  step: DirectStep<TopicAction>,
  outcome: DirectTaken,
): { heard: RelayMessage[]; refusedBecause: string[] } {
  const heard: RelayMessage[] = [];
  const reasons = new Set<string>();
  for (const [index, { topic, payload }] of step.messages.entries()) {
    const reason = reasonOf(outcome, index);
    if (reason !== undefined) reasons.add(reason);
    const { result } = outcome.results[index] ?? {};
    const isHeard =
      payload !== undefined && result !== 'ignored' && reason !== droppedReason && reason !== 'session_revoked';
    if (isHeard) heard.push({ topic, payload, isJson: result === 'accepted' });
  }
  return { heard, refusedBecause: [...reasons] };
}

function reasonOf(outcome: DirectTaken | undefined, index: number): string | undefined {
  const result = outcome?.results[index];
  return result !== undefined && 'reason' in result ? result.reason : undefined;
}

export type DirectDelivery = 'written' | 'not_subscribed' | 'busy' | undefined;

export function deliver(
  connection: DirectConnection,
  session: DirectSession,
  { topic, payload, commandId }: { topic: string; payload: string; commandId: string | null },
): DirectDelivery | 'too_much_unread' {
  const { level, maxPacketBytes } = session;
  const qos = grantedQos(session, topic);
  if (qos === undefined) return 'not_subscribed';
  const noted = qos === 1 ? notePublished(session, commandId, directLimits.inFlight) : undefined;
  if (qos === 1 && noted === undefined) return 'busy';
  const bytes = encodePublish(level, topic, payload, noted?.packetId ?? 0);
  // MQTT5-3.1.2-24
  if (bytes.length > maxPacketBytes) return 'busy';
  const unreadBytes = session.unreadBytes + (qos === 0 ? bytes.length : 0);
  if (unreadBytes > directLimits.unreadBytes) return 'too_much_unread';
  connection.session = { ...(noted?.session ?? session), unreadBytes };
  connection.save();
  return connection.send(bytes) ? 'written' : undefined;
}
