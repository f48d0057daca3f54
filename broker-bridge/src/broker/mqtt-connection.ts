// One network connection to the broker, from its attempt to its end. It acknowledges a message only on request and
// stores nothing: what is unacknowledged when it closes is redelivered by the broker, or reported as unanswered.
import { connect, isIP, Socket } from 'node:net';
import { connect as connectTls, TLSSocket } from 'node:tls';
import { MqttClient, type IClientOptions, type IPublishPacket } from 'mqtt';
import { generate, type IConnackPacket } from 'mqtt-packet';
import {
  maxPayloadBytes,
  maxReplyLength,
  uplinkFilters,
  type NotPublishedReason,
} from '../../../src/protocol/bridge.ts';
import type { MqttConfig } from '../config.ts';
import { describeError } from '../../../node-service/log.ts';
import type { SpoolItem } from '../spool/database.ts';
import { PacketLimit, payloadBytesOf } from './packet-limit.ts';

const protocolVersions = { '5': 5, '3.1.1': 4 } as const;
export type MqttVersion = keyof typeof protocolVersions;
export const unacceptableVersionCodes = [0x01, 0x84];

/** `reasonCode` is the broker's, if it refused. */
export type PublishOutcome =
  | { type: 'published'; hasSubscribers: boolean | null; reply?: string }
  | { type: 'not-published'; reason: NotPublishedReason; reasonCode?: number };

/** Of the broker itself to what the Worker publishes, as mosquitto's to its commands. */
export type WantedReply = { topic: string; containing: string; withinMs: number };
type AwaitedReply = WantedReply & { finish: (text?: string) => void };

/** `packetId` is 0 for QoS 0, which is not acknowledged. */
export type IncomingMessage = Pick<SpoolItem, 'topic' | 'payload' | 'trueBytes' | 'dup' | 'retain'> & {
  packetId: number;
};

export type ConnectionEnd = {
  refusedCode: number | null;
  /** The broker gave the session to another client; only MQTT 5 says so. */
  isTakenOver: boolean;
  cause: string;
};

export type ConnectionEvents = {
  /** Before any message: whether the broker still has our session. */
  onSession: (isPresent: boolean) => void;
  /** Subscribed and ready to publish; once more after each retry of a refused subscription. */
  onOpen: (refusedFilters: string[]) => void;
  /** `proceed` lets the next packet in. */
  onMessage: (message: IncomingMessage, proceed: () => void) => void;
  onEnd: (end: ConnectionEnd) => void;
};

const sessionTakenOver = 0x8e;
const noMatchingSubscribers = 0x10;
const refusedSubscription = 0x80;
const answerTimeoutMs = 10_000;
const resubscribeAfterMs = 30_000;
const disconnectTimeoutMs = 1000;
/** The head that is kept of a payload that is too large, for a human to recognise its sender. */
const cutPayloadBytes = 1024;

/** Handed to the library in place of an acknowledgement: it then reads on without sending one. */
const ackDeferred = new Error('ack deferred');

export type MqttConnection = ReturnType<typeof openConnection>;

export function openConnection(config: MqttConfig, version: MqttVersion, events: ConnectionEvents) {
  const unanswered = new Set<(outcome: PublishOutcome) => void>();
  /** How many publishes may be unacknowledged, by the broker's receive maximum. */
  let maxUnanswered = 65_535;
  const awaitedReplies = new Set<AwaitedReply>();
  const ending: ConnectionEnd = { refusedCode: null, isTakenOver: false, cause: 'closed by the broker' };
  let isOpen = false;
  let hasEnded = false;
  let acks: number[] = [];
  let pubackCode = 0;
  let lastPacketAtMs = Date.now();
  let subscribeTimer: NodeJS.Timeout | undefined;
  // `manualConnect`, so that handleMessage is in place before the first packet can arrive.
  const client = new MqttClient(openLimited, connectOptions(config, version));
  client.handleMessage = takeMessage;
  client.on('packetreceive', (packet) => {
    lastPacketAtMs = Date.now();
    if (packet.cmd === 'connack') readConnack(packet);
    // The library reports a failure, but not the difference between the reasons 16 and 0.
    if (packet.cmd === 'puback') pubackCode = packet.reasonCode ?? 0;
  });
  client.on('connect', subscribe);
  client.on('disconnect', (packet) => {
    ending.isTakenOver = packet.reasonCode === sessionTakenOver;
    fail(`the broker disconnected us, reason ${packet.reasonCode ?? 0}`);
  });
  client.on('error', (error) => fail(describeError(error)));
  client.on('close', noteEnd);
  client.connect();
  client.stream.on('error', (error) => (ending.cause = describeError(error)));
  return {
    unanswered: () => unanswered.size,
    mayPublish: () => unanswered.size < maxUnanswered,
    acknowledge,
    publish,
    cutIfInactiveSince,
    end,
    cut,
  };

  /** For a message of this connection; to be called in the order of arrival (MQTT-4.6.0-2). */
  function acknowledge(packetId: number): void {
    if (packetId === 0 || hasEnded) return;
    acks.push(packetId);
    if (acks.length === 1) queueMicrotask(writeAcks);
  }

  /** Sends at once or not at all. Resolves when the broker has answered or the connection has ended. */
  async function publish(
    topic: string,
    payload: string,
    messageExpirySeconds: number,
    wanted?: WantedReply,
  ): Promise<PublishOutcome> {
    if (wanted === undefined) return send(topic, payload, messageExpirySeconds);
    // Each time: such publishes are few, and the broker may grant now what it refused before.
    if (!(await subscribeTo(wanted.topic))) {
      return { type: 'not-published', reason: isOpen ? 'refused' : 'broker_disconnected' };
    }
    const reply = awaitReply(wanted);
    const outcome = await send(topic, payload, messageExpirySeconds);
    if (outcome.type === 'not-published') {
      reply.finish();
      return outcome;
    }
    const text = await reply.text;
    return text === undefined ? outcome : { ...outcome, reply: text };
  }

  /** `text` resolves with the reply, or with nothing after `withinMs`, by `finish` or at the end of the connection. */
  function awaitReply(wanted: WantedReply) {
    const { promise: text, resolve } = Promise.withResolvers<string | undefined>();
    const finish = (reply?: string): void => {
      clearTimeout(timer);
      awaitedReplies.delete(awaited);
      resolve(reply);
    };
    const timer = setTimeout(finish, wanted.withinMs);
    const awaited = { ...wanted, finish };
    awaitedReplies.add(awaited);
    return { text, finish };
  }

  function takeReply(from: string, text: string): void {
    if (text.length > maxReplyLength) return;
    for (const { topic, containing, finish } of awaitedReplies) {
      if (topic === from && text.includes(containing)) finish(text);
    }
  }

  function send(topic: string, payload: string, messageExpirySeconds: number): Promise<PublishOutcome> {
    return new Promise((resolve) => {
      if (!isOpen) {
        resolve({ type: 'not-published', reason: 'broker_disconnected' });
        return;
      }
      const finish = (outcome: PublishOutcome): void => {
        if (unanswered.delete(finish)) resolve(outcome);
      };
      unanswered.add(finish);
      const properties = version === '5' ? { properties: { messageExpiryInterval: messageExpirySeconds } } : {};
      client.publish(topic, payload, { qos: 1, retain: false, ...properties }, () => finish(readPuback()));
    });
  }

  /** `atMs`: when a publish was sent that is still unanswered. */
  function cutIfInactiveSince(atMs: number): void {
    if (lastPacketAtMs < atMs) cut('the broker does not answer');
  }

  /** Sends DISCONNECT, which keeps the broker session. Resolves when the connection is closed. */
  async function end(): Promise<void> {
    if (hasEnded) return;
    ending.cause = 'ended by this bridge';
    writeAcks();
    const { stream } = client;
    const protocolVersion = protocolVersions[version];
    // Not the library's end(): that waits for answers that may never come.
    if (isOpen) stream.end(generate({ cmd: 'disconnect', reasonCode: 0 }, { protocolVersion }));
    else stream.destroy();
    isOpen = false;
    const timer = setTimeout(() => client.stream.destroy(), disconnectTimeoutMs);
    await new Promise<void>((resolve) => client.once('close', resolve));
    clearTimeout(timer);
  }

  /** Discards what the operating system has not sent yet, if it can: only on plain TCP. */
  function cut(cause: string): void {
    ending.cause = cause;
    const { stream } = client;
    if (stream instanceof Socket && !(stream instanceof TLSSocket) && !stream.connecting) stream.resetAndDestroy();
    else stream.destroy();
  }

  /** The library pipes the stream into its parser: the limit goes in between. */
  function openLimited(): Socket {
    // The library leaves Nagle's algorithm on, which costs a command 40 ms.
    const stream = openStream(config).setNoDelay(true);
    const limit = new PacketLimit();
    limit.on('error', (error) => fail(`the broker sends what is not MQTT: ${error.message}`));
    const pipe = stream.pipe.bind(stream);
    stream.pipe = (parser) => pipe(limit).pipe(parser);
    return stream;
  }

  function fail(cause: string): void {
    ending.cause = cause;
    client.stream.destroy();
  }

  function noteEnd(): void {
    if (hasEnded) return;
    hasEnded = true;
    isOpen = false;
    acks = [];
    clearTimeout(subscribeTimer);
    for (const { finish } of awaitedReplies) finish();
    // Not `broker_disconnected`: the Worker would send it to another bridge, and the broker may have it already.
    for (const finish of [...unanswered]) finish({ type: 'not-published', reason: 'cancelled' });
    events.onEnd(ending);
  }

  function readConnack(packet: IConnackPacket): void {
    const code = packet.reasonCode ?? packet.returnCode ?? 0;
    if (code !== 0) ending.refusedCode = code;
    else {
      maxUnanswered = packet.properties?.receiveMaximum ?? maxUnanswered;
      events.onSession(packet.sessionPresent);
    }
  }

  function subscribe(): void {
    // `nl`: no messages of its own. `rh` 1: retained messages come with a new session, not at every connect.
    const options = version === '5' ? { qos: 1 as const, nl: true, rh: 1 } : { qos: 1 as const };
    subscribeTimer = setTimeout(() => fail('no answer to the subscription'), answerTimeoutMs);
    client.subscribe([...uplinkFilters], options, (_error, _granted, packet) => {
      if (hasEnded || packet === undefined) return;
      clearTimeout(subscribeTimer);
      const isRefused = (_: string, index: number) => Number(packet.granted[index]) >= refusedSubscription;
      const refused = uplinkFilters.filter(isRefused);
      if (refused.length > 0) subscribeTimer = setTimeout(subscribe, resubscribeAfterMs);
      isOpen = true;
      events.onOpen(refused);
    });
  }

  function subscribeTo(topic: string): Promise<boolean> {
    return new Promise((resolve) => {
      client.subscribe(topic, { qos: 0 }, (error, _granted, packet) =>
        resolve(error === null && Number(packet?.granted[0]) < refusedSubscription),
      );
    });
  }

  function takeMessage(packet: IPublishPacket, callback: (error?: Error) => void): void {
    const { topic, qos, dup, retain } = packet;
    // No device has such a topic: it is a reply, perhaps to another client.
    if (topic.startsWith('$')) {
      takeReply(topic, packet.payload.toString());
      callback();
      return;
    }
    const payloadBytes = payloadBytesOf(packet);
    const trueBytes = payloadBytes > maxPayloadBytes ? payloadBytes : null;
    // A copy, because a slice would keep the whole read buffer in memory.
    const keptBytes = trueBytes === null ? payloadBytes : cutPayloadBytes;
    const payload = Buffer.from((packet.payload as Buffer).subarray(0, keptBytes));
    const packetId = qos === 0 ? 0 : (packet.messageId ?? 0);
    const proceed = (): void => callback(qos === 0 ? undefined : ackDeferred);
    events.onMessage({ topic, payload, trueBytes, dup, retain, packetId }, proceed);
  }

  function writeAcks(): void {
    if (acks.length === 0 || hasEnded) return;
    // In the form that MQTT 3.1.1 and 5 share: without a reason code it means success (MQTT5-3.4.2.1).
    const bytes = Buffer.allocUnsafe(acks.length * 4);
    for (const [index, packetId] of acks.entries()) {
      bytes.writeUInt16BE(0x4002, index * 4);
      bytes.writeUInt16BE(packetId, index * 4 + 2);
    }
    client.stream.write(bytes);
    acks = [];
  }

  function readPuback(): PublishOutcome {
    const code = pubackCode;
    if (code !== 0 && code !== noMatchingSubscribers) {
      return { type: 'not-published', reason: 'refused', reasonCode: code };
    }
    return { type: 'published', hasSubscribers: version === '5' ? code === 0 : null };
  }
}

function openStream({ url, tls }: MqttConfig): Socket {
  const { protocol, hostname, port } = new URL(url);
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  if (protocol === 'mqtt:') return connect({ host, port: Number(port) || 1883 });
  // A server name is no IP address (RFC 6066 3).
  return connectTls({ host, port: Number(port) || 8883, ...(isIP(host) === 0 && { servername: host }), ...tls });
}

function connectOptions(config: MqttConfig, version: MqttVersion): IClientOptions {
  return {
    clientId: config.clientId,
    ...(config.username === undefined ? {} : { username: config.username }),
    ...(config.password === undefined ? {} : { password: config.password }),
    protocolVersion: protocolVersions[version],
    clean: false,
    keepalive: 30,
    connectTimeout: answerTimeoutMs,
    manualConnect: true,
    // Each connection has a client of its own: the library must not publish again what an earlier one did not finish.
    reconnectPeriod: 0,
    resubscribe: false,
    queueQoSZero: false,
    // The library's own looks for DEBUG in the environment several times a message.
    log: () => undefined,
    ...config.tls,
    ...(version === '5'
      ? { properties: { sessionExpiryInterval: 86_400, receiveMaximum: 500, maximumPacketSize: config.maxPacketBytes } }
      : {}),
  };
}
