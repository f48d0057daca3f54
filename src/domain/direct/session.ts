// One MQTT connection of a device or a home, from its CONNECT on: which packets it may send, what it is answered, and what it says
// with them. Plain data in, plain data out; what the messages change is decided by the owner of the connection.
import { textOf } from '../../protocol/mqtt-codec/byte-cursor.ts';
import * as mqtt from '../../protocol/mqtt-codec/client-packets.ts';
import type { MalformedReason } from '../../protocol/mqtt-codec/malformed.ts';
import type { RawPacket, Unreadable } from '../../protocol/mqtt-codec/packet-reader.ts';
import { encodeSuback, encodeUnsuback, pingresp } from '../../protocol/mqtt-codec/server-packets.ts';
import { topicActions, type TopicAction } from '../../protocol/mqtt.ts';
import { mayUse, rightsOfDevice, type TopicRight } from '../topic-rights.ts';
import { isFilter, matchesFilter, topicOf, type DeviceIdentity } from '../topics.ts';
import { mentionedCommands } from '../device/messages/messages.ts';
import { endOfMalformed, subackCodeOf, type DirectEndReason, type FilterRefusal } from './answer-codes.ts';
import { presenceTimes } from '../device/presence/presence-times.ts';
import { directLimits } from './direct-limits.ts';

/** Outlives a sleep of the object, in the attachment of the socket. No deployment: that closes every socket. */
export type DirectSession = {
  level: mqtt.ProtocolLevel;
  startedAtMs: number;
  keepAliveSeconds: number;
  will: string | null;
  subscriptions: {
    filter: string;
    qos: 0 | 1;
    isNoLocal: boolean;
    /** Messages keep their retain flag (MQTT5 3.8.3.1). */
    keepsRetain?: boolean;
    /** Its messages carry it (MQTT5 3.8.2.1.2). */
    id?: number;
  }[];
  lastPacketAtMs: number;
  /** Of the device, for what it receives (MQTT5 3.1.2.11.3, MQTT5 3.1.2.11.4). */
  receiveMaximum: number;
  maxPacketBytes: number;
  lastPacketId: number;
  /** What the device has not acknowledged, with the command that it carries; oldest first. */
  inFlight: { packetId: number; commandId: string | null }[];
  /** Sent with QoS 0 and not shown to be read. */
  unreadBytes: number;
  /** Of a home: a client may have several connections. */
  clientId?: string;
  /** A broker that passes messages on: its subscriptions keep the retain flag. */
  isBroker?: boolean;
  /** Of a home: which of its rows has the subscriptions, and when the API key was looked at. */
  slot?: number;
  checkedAtMs?: number;
};

/** What the owner of a connection lets its client do. */
export type SessionRules<Action extends string> = {
  /** Of subscriptions. */
  rights: readonly TopicRight[];
  maxSubscriptions: number;
  /** Characters of all filters. */
  maxFiltersLength: number;
  maxGrantedQos: 0 | 1;
  takesSubscriptionIds: boolean;
  /** Undefined: it may not publish there. */
  publishRight: (topic: string) => { action: Action; mayRetain: boolean } | undefined;
  /** Whether a client that sends it has read all that it was sent before. */
  provesReading: (action: Action, text: string) => boolean;
};

export type DirectMessage<Action extends string> = {
  action: Action;
  topic: string;
  payload: string | undefined;
  /** It may have come before. */
  isRedelivery: boolean;
};

/** In the order in which they go out; PUBACK once the message with this index has its effect. */
type DirectReply = { kind: 'bytes'; bytes: Uint8Array } | { kind: 'puback'; packetId: number; message: number };

export type DirectEnd = { reason: DirectEndReason; malformed?: MalformedReason; packet?: string; topic?: string };

export type DirectStep<Action extends string> = {
  session: DirectSession;
  messages: DirectMessage<Action>[];
  replies: DirectReply[];
  delivered: string[];
  /** Filters, in their order. `wantsRetained`: also if it has such a subscription (MQTT5 3.8.3.1). */
  granted: { filter: string; wantsRetained: boolean }[];
  unacknowledged: number;
  end: DirectEnd | undefined;
};

export function rulesOf(device: DeviceIdentity): SessionRules<TopicAction> {
  const rights = rightsOfDevice(device);
  const mayPublish = (topic: string, isRetained: boolean) => mayUse(rights, { action: 'publish', topic, isRetained });
  const topics = Object.values(topicActions).map((action) => ({ action, topic: topicOf(device, action) }));
  const own = new Map(
    topics
      .filter(({ topic }) => mayPublish(topic, false))
      .map(({ topic, action }) => [topic, { action, mayRetain: mayPublish(topic, true) }]),
  );
  return {
    rights,
    maxSubscriptions: directLimits.subscriptions,
    maxFiltersLength: directLimits.filtersLength,
    maxGrantedQos: 1,
    takesSubscriptionIds: false,
    publishRight: (topic) => own.get(topic),
    // A reply to a command.
    provesReading: (action, text) => mentionedCommands(action, text).length > 0,
  };
}

export function beginSession(connect: mqtt.ConnectPacket, will: string | null, startedAtMs: number): DirectSession {
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

export function takePackets<Action extends string>(
  session: DirectSession,
  packets: Iterable<RawPacket | Unreadable>,
  rules: SessionRules<Action>,
  nowMs: number,
): DirectStep<Action> {
  const step: DirectStep<Action> = {
    session,
    messages: [],
    replies: [],
    delivered: [],
    granted: [],
    unacknowledged: 0,
    end: undefined,
  };
  for (const raw of packets) {
    if (step.session.lastPacketAtMs !== nowMs) step.session = { ...step.session, lastPacketAtMs: nowMs };
    const packet = 'malformed' in raw ? raw : mqtt.readPacket(raw, session.level);
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

function takePacket<Action extends string>(
  step: DirectStep<Action>,
  packet: mqtt.ClientPacket,
  rules: SessionRules<Action>,
): DirectEnd | undefined {
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

function takePublish<Action extends string>(
  step: DirectStep<Action>,
  packet: mqtt.PublishPacket,
  { publishRight, provesReading }: SessionRules<Action>,
) {
  const { topic, payload, qos, isRetained, packetId, isRedelivery } = packet;
  const { level } = step.session;
  if (qos === 2) return { reason: 'qos_not_supported', topic } as const;
  if (packet.hasTopicAlias) return { reason: 'topic_alias_invalid', topic } as const;
  const right = publishRight(topic);
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
  if (step.session.unreadBytes > 0 && text !== undefined && provesReading(action, text)) {
    step.session = { ...step.session, unreadBytes: 0 };
  }
  step.messages.push({ action, topic, payload: text, isRedelivery });
  return undefined;
}

/** An unknown packet id is ignored: the device may acknowledge what an earlier connection brought it. */
function takePuback<Action extends string>(step: DirectStep<Action>, packetId: number): void {
  const { inFlight } = step.session;
  const acknowledged = inFlight.find((publish) => publish.packetId === packetId);
  if (acknowledged === undefined) return;
  // A device that acknowledges has read all that was sent before.
  step.session = { ...step.session, inFlight: inFlight.filter((publish) => publish !== acknowledged), unreadBytes: 0 };
  if (acknowledged.commandId !== null) step.delivered.push(acknowledged.commandId);
}

function takeSubscribe<Action extends string>(
  step: DirectStep<Action>,
  packet: mqtt.SubscribePacket,
  rules: SessionRules<Action>,
): DirectEnd | undefined {
  const { subscriptionId: id } = packet;
  if (id !== undefined && !rules.takesSubscriptionIds) return { reason: 'subscription_ids_not_supported' };
  const codes = packet.filters.map(({ filter, qos, isNoLocal, keepsRetain, retained }) => {
    const { subscriptions, level, isBroker = false } = step.session;
    const others = subscriptions.filter((entry) => entry.filter !== filter);
    const refusal = refuseFilter(filter, rules, others);
    if (refusal !== undefined) return subackCodeOf(level, refusal);
    const granted = qos === 0 ? 0 : rules.maxGrantedQos;
    const marks = { ...((keepsRetain || isBroker) && { keepsRetain: true }), ...(id !== undefined && { id }) };
    const entry = { filter, qos: granted, isNoLocal, ...marks };
    step.session = { ...step.session, subscriptions: [...others, entry] };
    const isNew = others.length === subscriptions.length;
    step.granted.push({ filter, wantsRetained: retained === 'always' || (retained === 'if_new' && isNew) });
    return subackCodeOf(level, granted);
  });
  step.replies.push({ kind: 'bytes', bytes: encodeSuback(step.session.level, packet.packetId, codes) });
  return undefined;
}

function refuseFilter(
  filter: string,
  rules: Pick<SessionRules<string>, 'rights' | 'maxSubscriptions' | 'maxFiltersLength'>,
  others: DirectSession['subscriptions'],
): FilterRefusal | undefined {
  if (filter.startsWith('$share/')) return 'shared';
  if (!isFilter(filter)) return 'invalid';
  if (!mayUse(rules.rights, { action: 'subscribe', topic: filter })) return 'forbidden';
  const length = others.reduce((sum, entry) => sum + entry.filter.length, filter.length);
  return others.length >= rules.maxSubscriptions || length > rules.maxFiltersLength ? 'too_many' : undefined;
}
