// One MQTT direct connection, from its CONNECT on: which packets it may send, what it is answered, and what the device
// says with them. Plain data in, plain data out; what the messages change is decided by the device's core.
import { z } from 'zod';
import {
  readPacket,
  type ClientPacket,
  type ConnectPacket,
  type PublishPacket,
  type SubscribePacket,
} from '../../protocol/mqtt-codec/client-packets.ts';
import type { MalformedReason } from '../../protocol/mqtt-codec/malformed.ts';
import type { RawPacket, Unreadable } from '../../protocol/mqtt-codec/packet-reader.ts';
import { encodeSuback, encodeUnsuback, pingresp } from '../../protocol/mqtt-codec/server-packets.ts';
import { topicActions, type TopicAction } from '../../protocol/mqtt.ts';
import { mayUse, rightsOfDevice, type TopicRight } from '../topic-rights.ts';
import { isFilter, matchesFilter, topicOf, type DeviceIdentity } from '../topics.ts';
import { mentionedCommands } from '../device/messages/messages.ts';
import { endOfMalformed, subackCodeOf, type DirectEndReason, type FilterRefusal } from './answer-codes.ts';
import { presenceTimes } from '../device/presence/presence-times.ts';
import { textOf } from './connect.ts';
import { directLimits } from './direct-limits.ts';

/** Outlives a sleep of the object, in the attachment of the socket. */
export const directSessionSchema = z.object({
  level: z.literal([4, 5]),
  startedAtMs: z.number(),
  keepAliveSeconds: z.number(),
  will: z.string().nullable(),
  subscriptions: z.array(z.object({ filter: z.string(), qos: z.literal([0, 1]), isNoLocal: z.boolean() })),
  lastPacketAtMs: z.number(),
  /** Of the device, for what it receives (MQTT5 3.1.2.11.3, MQTT5 3.1.2.11.4). */
  receiveMaximum: z.number(),
  maxPacketBytes: z.number(),
  lastPacketId: z.number(),
  /** What the device has not acknowledged, with the command that it carries; oldest first. */
  inFlight: z.array(z.object({ packetId: z.number(), commandId: z.string().nullable() })),
  /** Sent with QoS 0 and not shown to be read. */
  unreadBytes: z.number(),
});
export type DirectSession = z.infer<typeof directSessionSchema>;

export type DirectRules = {
  device: DeviceIdentity;
  rights: readonly TopicRight[];
  own: ReadonlyMap<string, { action: TopicAction; mayRetain: boolean }>;
};

type DirectMessage = {
  action: TopicAction;
  topic: string;
  payload: string | undefined;
};

/** In the order in which they go out; PUBACK once the message with this index has its effect. */
type DirectReply = { kind: 'bytes'; bytes: Uint8Array } | { kind: 'puback'; packetId: number; message: number };

export type DirectEnd = { reason: DirectEndReason; malformed?: MalformedReason; packet?: string; topic?: string };

export type DirectStep = {
  session: DirectSession;
  messages: DirectMessage[];
  replies: DirectReply[];
  delivered: string[];
  hasSubscribed: boolean;
  unacknowledged: number;
  end: DirectEnd | undefined;
};

export function rulesOf(device: DeviceIdentity): DirectRules {
  const rights = rightsOfDevice(device);
  const mayPublish = (topic: string, isRetained: boolean) => mayUse(rights, { action: 'publish', topic, isRetained });
  const topics = Object.values(topicActions).map((action) => ({ action, topic: topicOf(device, action) }));
  const own = new Map(
    topics
      .filter(({ topic }) => mayPublish(topic, false))
      .map(({ topic, action }) => [topic, { action, mayRetain: mayPublish(topic, true) }]),
  );
  return { device, rights, own };
}

export function beginSession(connect: ConnectPacket, will: string | null, startedAtMs: number): DirectSession {
  const { level, keepAliveSeconds, receiveMaximum, maxPacketBytes } = connect;
  return {
    level,
    startedAtMs,
    keepAliveSeconds,
    will,
    subscriptions: [],
    lastPacketAtMs: startedAtMs,
    receiveMaximum,
    maxPacketBytes,
    lastPacketId: 0,
    inFlight: [],
    unreadBytes: 0,
  };
}

export function takePackets(
  session: DirectSession,
  packets: Iterable<RawPacket | Unreadable>,
  rules: DirectRules,
  nowMs: number,
): DirectStep {
  const step: DirectStep = {
    session,
    messages: [],
    replies: [],
    delivered: [],
    hasSubscribed: false,
    unacknowledged: 0,
    end: undefined,
  };
  for (const raw of packets) {
    if (step.session.lastPacketAtMs !== nowMs) step.session = { ...step.session, lastPacketAtMs: nowMs };
    const packet = 'malformed' in raw ? raw : readPacket(raw, session.level);
    step.end = 'malformed' in packet ? endOfMalformed(packet.malformed) : takePacket(step, packet, rules);
    if (step.end !== undefined) break;
  }
  return step;
}

/** When the service counts the device as gone: MQTT-3.1.2-24. */
export function silentFromMs({ keepAliveSeconds, lastPacketAtMs }: DirectSession): number {
  return keepAliveSeconds === 0 ? Infinity : lastPacketAtMs + presenceTimes.directSilenceMs(keepAliveSeconds);
}

export function grantedQos({ subscriptions }: DirectSession, topic: string, isOwn = false): 0 | 1 | undefined {
  const matching = subscriptions.filter(
    ({ filter, isNoLocal }) => matchesFilter(filter, topic) && !(isOwn && isNoLocal),
  );
  if (matching.length === 0) return undefined;
  return matching.some(({ qos }) => qos === 1) ? 1 : 0;
}

/** Undefined if the device has to acknowledge something first. */
export function notePublished(
  session: DirectSession,
  commandId: string | null,
  maxInFlight: number,
): { session: DirectSession; packetId: number } | undefined {
  const { inFlight, receiveMaximum } = session;
  if (inFlight.length >= Math.min(receiveMaximum, maxInFlight)) return undefined;
  let packetId = session.lastPacketId;
  do packetId = (packetId % 65_535) + 1;
  while (inFlight.some((publish) => publish.packetId === packetId));
  return {
    session: { ...session, lastPacketId: packetId, inFlight: [...inFlight, { packetId, commandId }] },
    packetId,
  };
}

function takePacket(step: DirectStep, packet: ClientPacket, rules: DirectRules): DirectEnd | undefined {
  switch (packet.type) {
    case 'publish':
      return takePublish(step, packet, rules);
    case 'puback':
      takePuback(step, packet.packetId);
      return undefined;
    case 'subscribe':
      return takeSubscribe(step, packet, rules);
    case 'unsubscribe': {
      const { packetId, filters } = packet;
      const { subscriptions, level } = step.session;
      const isSubscribed = (filter: string) => subscriptions.some((entry) => entry.filter === filter);
      const codes = filters.map((filter) => (isSubscribed(filter) ? 0x00 : 0x11));
      const kept = subscriptions.filter(({ filter }) => !filters.includes(filter));
      step.session = { ...step.session, subscriptions: kept };
      step.replies.push({ kind: 'bytes', bytes: encodeUnsuback(level, packetId, codes) });
      return undefined;
    }
    case 'pingreq':
      step.replies.push({ kind: 'bytes', bytes: pingresp });
      return undefined;
    case 'disconnect':
      // MQTT5-3.1.2-23: a session that was to end with its connection cannot be made to last.
      if (packet.isExpiryRaised) return { reason: 'protocol_error', packet: 'disconnect' };
      return { reason: packet.isWithWill ? 'with_will' : 'clean' };
    // MQTT-3.1.0-2
    case 'connect':
    case 'connect_other_version':
      return { reason: 'protocol_error', packet: 'connect' };
    case 'unexpected':
      return { reason: 'protocol_error', packet: packet.name };
  }
}

function takePublish(step: DirectStep, packet: PublishPacket, { own }: DirectRules) {
  const { topic, payload, qos, isRetained, packetId } = packet;
  const { level } = step.session;
  if (qos === 2) return { reason: 'qos_not_supported', topic } as const;
  if (packet.hasTopicAlias) return { reason: 'topic_alias_invalid', topic } as const;
  const right = own.get(topic);
  // MQTT-3.3.2-2
  if (right === undefined && (topic === '' || /[+#]/.test(topic))) return { reason: 'topic_invalid', topic } as const;
  if (isRetained && (level === 5 || right?.mayRetain === false))
    return { reason: 'retain_not_supported', topic } as const;
  if (right === undefined) return { reason: 'topic_forbidden', topic } as const;
  const { action } = right;
  if (qos === 1) {
    step.replies.push({ kind: 'puback', packetId, message: step.messages.length });
    // Each of them is acknowledged before the next wake-up: what is in flight came at once.
    step.unacknowledged += 1;
    if (level === 5 && step.unacknowledged > directLimits.receiveMaximum)
      return { reason: 'receive_maximum_exceeded', topic } as const;
  }
  const text = textOf(payload);
  // A reply to a command shows that it was read, and all that was sent before it.
  if (step.session.unreadBytes > 0 && text !== undefined && mentionedCommands(action, text).length > 0) {
    step.session = { ...step.session, unreadBytes: 0 };
  }
  step.messages.push({ action, topic, payload: text });
  return undefined;
}

/** An unknown packet id is ignored: the device may acknowledge what an earlier connection brought it. */
function takePuback(step: DirectStep, packetId: number): void {
  const { inFlight } = step.session;
  const acknowledged = inFlight.find((publish) => publish.packetId === packetId);
  if (acknowledged === undefined) return;
  // A device that acknowledges has read all that was sent before.
  step.session = { ...step.session, inFlight: inFlight.filter((publish) => publish !== acknowledged), unreadBytes: 0 };
  if (acknowledged.commandId !== null) step.delivered.push(acknowledged.commandId);
}

function takeSubscribe(step: DirectStep, packet: SubscribePacket, rules: DirectRules): DirectEnd | undefined {
  if (packet.hasSubscriptionId) return { reason: 'subscription_ids_not_supported' };
  const commands = topicOf(rules.device, topicActions.propertySet);
  const codes = packet.filters.map(({ filter, qos, isNoLocal }) => {
    const { subscriptions, level } = step.session;
    const others = subscriptions.filter((entry) => entry.filter !== filter);
    const refusal = refuseFilter(filter, rules, others);
    if (refusal !== undefined) return subackCodeOf(level, refusal);
    const granted = qos === 0 ? 0 : 1;
    step.session = { ...step.session, subscriptions: [...others, { filter, qos: granted, isNoLocal }] };
    step.hasSubscribed ||= matchesFilter(filter, commands);
    return subackCodeOf(level, granted);
  });
  step.replies.push({ kind: 'bytes', bytes: encodeSuback(step.session.level, packet.packetId, codes) });
  return undefined;
}

function refuseFilter(
  filter: string,
  rules: DirectRules,
  others: DirectSession['subscriptions'],
): FilterRefusal | undefined {
  if (filter.startsWith('$share/')) return 'shared';
  if (!isFilter(filter)) return 'invalid';
  if (!mayUse(rules.rights, { action: 'subscribe', topic: filter })) return 'forbidden';
  const length = others.reduce((sum, entry) => sum + entry.filter.length, filter.length);
  return others.length >= directLimits.subscriptions || length > directLimits.filtersLength ? 'too_many' : undefined;
}
