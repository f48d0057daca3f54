// The MQTT sockets of one device's object: opens them, hands their packets to domain/direct, what these mean to the device's
// core, and its answers back. At most one of them is the device's session. Owns no rule of MQTT and no state of the device.
import { digestOf } from '../../../crypto/secrets.ts';
import { readConfig } from '../../../config.ts';
import * as codes from '../../../domain/direct/answer-codes.ts';
import type { ConnectRefusal, DirectEndReason } from '../../../domain/direct/answer-codes.ts';
import { readConnect, readLogin } from '../../../domain/direct/connect.ts';
import * as direct from '../../../domain/direct/session.ts';
import type { DirectEnd, DirectRules, DirectSession, DirectStep } from '../../../domain/direct/session.ts';
import type { DirectSessionEnd, OpenSession } from '../../../domain/device/presence/direct-session.ts';
import type { DirectTaken } from '../../../domain/device/core/events.ts';
import { describeError, log } from '../../../log.ts';
import type { ConnectPacket, ProtocolLevel } from '../../../protocol/mqtt-codec/client-packets.ts';
import { refusedDirectLoginEvent } from '../../../protocol/log-events.ts';
import { malformedClauses } from '../../../protocol/mqtt-codec/malformed.ts';
import { pubackType, publishType } from '../../../protocol/mqtt-codec/packet-reader.ts';
import { encodeConnack, encodeDisconnect } from '../../../protocol/mqtt-codec/server-packets.ts';
import { runsOf } from '../../calls/push-to-relays.ts';
import { answer, deliver, sortMessages, type DirectDelivery } from './exchange.ts';
import { DirectConnection } from './connection.ts';
import { answerClose, closeIfOpen } from '../../calls/open-socket.ts';
import type { RelayPushes } from '../relay-pushes.ts';
import type { StoredDevice } from '../stored-device.ts';
import { directLimits } from '../../../domain/direct/direct-limits.ts';

/** Set by the Worker on the request that opens a socket: the client's address, encoded as a part of a URL. */
export const directAddressHeader = 'X-Direct-Client-Address';

/** Asked by MqttPump: the answer comes behind all that was sent before, and wakes no object. */
export const takenCheck = { ask: 'taken?', answer: 'taken' } as const;

export class DirectSockets {
  readonly #ctx: DurableObjectState;
  readonly #config: ReturnType<typeof readConfig>;
  readonly #device: StoredDevice;
  readonly #pushes: RelayPushes;
  readonly #connections = new Map<WebSocket, DirectConnection>();
  #rules: DirectRules | undefined;

  constructor(ctx: DurableObjectState, env: Env, device: StoredDevice, pushes: RelayPushes) {
    this.#ctx = ctx;
    this.#config = readConfig(env);
    this.#device = device;
    this.#pushes = pushes;
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(takenCheck.ask, takenCheck.answer));
    for (const socket of ctx.getWebSockets()) {
      const connection = DirectConnection.wake(socket);
      if (connection === undefined) {
        this.#log('error', 'direct connection without a readable attachment', {});
        closeIfOpen(socket, 1011, 'failed');
        continue;
      }
      this.#connections.set(socket, connection);
    }
  }

  accept(request: Request): Response {
    const address = decodeURIComponent(request.headers.get(directAddressHeader) ?? '');
    const { 0: client, 1: server } = new WebSocketPair();
    this.#ctx.acceptWebSocket(server);
    const connection = new DirectConnection(server, { phase: 'connecting', address, session: null });
    connection.save();
    this.#connections.set(server, connection);
    this.#awaitRest(connection);
    const unconnected = [...this.#connections.values()].filter(({ phase }) => phase === 'connecting');
    const excess = unconnected.length - directLimits.unconnectedPerDevice;
    for (const oldest of unconnected.slice(0, Math.max(0, excess))) {
      this.#drop(oldest, 1013, 'too many connections without CONNECT');
    }
    return new Response(null, { status: 101, webSocket: client });
  }

  openSession(): OpenSession | null {
    const session = this.#open()?.session;
    if (session === undefined) return null;
    const { startedAtMs, lastPacketAtMs } = session;
    return { startedAtMs, lastPacketAtMs, silentFromMs: direct.silentFromMs(session) };
  }

  /** Writes a message to the device's session. `commandId`: what its acknowledgement is reported with. */
  publish(topic: string, payload: string, commandId: string | null): DirectDelivery {
    const open = this.#open();
    if (open === undefined) return undefined;
    const { connection, session } = open;
    const delivery = deliver(connection, session, { topic, payload, commandId });
    if (delivery !== 'too_much_unread') return delivery;
    this.#endByService(connection, { reason: delivery });
    return 'busy';
  }

  end(reason: DirectEndReason): void {
    const open = this.#open();
    if (open !== undefined) this.#close(open.connection, { reason });
  }

  async receive(socket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    const connection = this.#connections.get(socket);
    if (connection === undefined || connection.phase === 'ended') return;
    if (typeof data === 'string') {
      // MQTT-6.0.0-1
      this.#endByService(connection, { reason: 'text_frame' });
      return;
    }
    connection.reader.push(new Uint8Array(data));
    if (connection.phase === 'connecting') await this.#connect(connection);
    else if (!connection.gathering.isWaiting) this.#takeOrGather(connection);
  }

  #takeOrGather(connection: DirectConnection): void {
    const { directPacketBytes } = this.#config.limits;
    const type = connection.reader.nextType(directPacketBytes);
    if (type === undefined) {
      if (!connection.hasDeadline) this.#awaitRest(connection);
      return;
    }
    // If more is in flight, the next command may need the room.
    const isDelivery = type === pubackType && connection.session?.inFlight.length === 1;
    const first = type === publishType ? 'message' : isDelivery ? 'delivery' : 'other';
    connection.gathering.come(first, directLimits.gatherMs, () => this.#drain(connection));
  }

  closed(socket: WebSocket, code: number): void {
    answerClose(socket, code);
    this.#forget(socket);
  }

  failed(socket: WebSocket, error: unknown): void {
    this.#log('info', 'direct connection failed', describeError(error));
    this.#forget(socket);
  }

  #forget(socket: WebSocket): void {
    // A socket that closed in a sleep is not among those that the object wakes with.
    const connection = this.#connections.get(socket) ?? DirectConnection.wake(socket);
    if (connection === undefined) return;
    this.#drain(connection);
    const wasOpen = connection.isOpen();
    this.#leave(connection);
    this.#connections.delete(socket);
    if (wasOpen) this.#device.decide({ kind: 'direct_ended', end: endOf(connection, { reason: 'lost' }, Date.now()) });
  }

  async #connect(connection: DirectConnection): Promise<void> {
    const { limits } = this.#config;
    // What was sent behind CONNECT waits for its answer, but not without end.
    if (connection.reader.waiting > limits.directPacketBytes) {
      this.#drop(connection, 1009, 'too much before CONNACK');
      return;
    }
    if (connection.isLoggingIn) return;
    const first = readConnect(connection.reader);
    if (first === undefined) return;
    if ('drop' in first) this.#drop(connection, first.drop.code, first.drop.cause);
    else if ('refusal' in first) this.#refuse(connection, first.level, first.refusal);
    else {
      try {
        await this.#logIn(connection, first);
      } catch (error) {
        // Nothing was written: the device tries again.
        this.#log('error', 'direct login not saved', describeError(error));
        this.#refuse(connection, first.level, 'unavailable');
      }
    }
  }

  async #logIn(connection: DirectConnection, packet: ConnectPacket): Promise<void> {
    const { level } = packet;
    const login = readLogin(packet, this.#ctx.id.name ?? '');
    if ('refusal' in login) {
      this.#refuse(connection, level, login.refusal);
      return;
    }
    connection.isLoggingIn = true;
    const passwordDigest = await digestOf(login.password);
    connection.isLoggingIn = false;
    // Its time may have passed.
    if (this.#connections.get(connection.socket)?.phase !== 'connecting') return;
    const before = this.#open();
    if (before !== undefined) this.#drain(before.connection);
    const present = this.#open();
    const outcome = this.#device.decide({
      kind: 'direct_connected',
      productKey: login.device.productKey,
      isClientIdRight: login.isClientIdRight,
      matchedDigest: this.#device.findDigest(passwordDigest),
      address: connection.address === '' ? null : connection.address,
      takenOver: present === undefined ? null : { will: present.session.will },
    });
    if (!outcome.ok) {
      this.#refuse(connection, level, codes.connectRefusalOf(outcome.refusal), outcome.refusal);
      return;
    }
    if (present !== undefined) this.#close(present.connection, { reason: 'taken_over' });
    connection.phase = 'open';
    connection.session = direct.beginSession(packet, login.will, outcome.value.startedAtMs);
    connection.clearDeadline();
    connection.save();
    const { directPacketBytes: maxPacketBytes } = this.#config.limits;
    const { receiveMaximum } = directLimits;
    connection.send(encodeConnack(level, 0, { maxPacketBytes, receiveMaximum }));
    this.#log('info', 'direct session began', { mqttLevel: level, keepAliveSeconds: packet.keepAliveSeconds });
    this.#drain(connection);
  }

  /** Takes all whole packets: one decision, one write, and the answers once it is written. */
  #drain(connection: DirectConnection): number {
    const { session } = connection;
    const device = this.#device.identity();
    const rules = device && (this.#rules ??= direct.rulesOf(device));
    if (!connection.isOpen() || session === null || rules === undefined) return 0;
    const nowMs = Date.now();
    const read = { packets: 0, isTooFast: false };
    const step = direct.takePackets(session, connection.packets(this.#config, read, nowMs), rules, nowMs);
    if (read.isTooFast) step.end ??= { reason: 'too_many_packets' };
    connection.session = step.session;
    try {
      this.#apply(connection, step);
    } catch (error) {
      // Nothing was written, and nothing is acknowledged: the device sends it again.
      this.#log('error', 'direct packets not saved', describeError(error));
      this.#endByService(connection, { reason: 'failed' });
      return 0;
    }
    if (!connection.isOpen()) return 0;
    if (connection.reader.waiting === 0) connection.clearDeadline();
    else if (read.packets > 0 || !connection.hasDeadline) this.#awaitRest(connection);
    connection.save();
    return step.unacknowledged;
  }

  #apply(connection: DirectConnection, step: DirectStep): void {
    const { messages, delivered, hasSubscribed, end, session } = step;
    const isForDevice = messages.length + delivered.length > 0 || hasSubscribed || end !== undefined;
    if (!isForDevice) {
      answer(connection, step, undefined);
      return;
    }
    const { startedAtMs } = session;
    const outcome = this.#device.decide(
      {
        kind: 'direct_packets_received',
        startedAtMs,
        messages: messages.map(({ action, payload }) => ({ action, payload })),
        delivered,
        hasSubscribed,
        end: end === undefined ? null : endOf(connection, end, Date.now()),
      },
      (result) => {
        answer(connection, step, result);
        if (end !== undefined) this.#close(connection, end);
      },
    );
    this.#pushOn(connection, step, outcome);
  }

  /** To the relay, and to the device itself if it subscribed to its own topics (MQTT-3.3.5-1). */
  #pushOn(connection: DirectConnection, step: DirectStep, outcome: DirectTaken): void {
    const { heard, refusedBecause } = sortMessages(step, outcome);
    if (refusedBecause.length > 0) this.#log('info', 'direct messages not accepted', { reasons: refusedBecause });
    const runs = runsOf(this.#ctx.id.name ?? '', outcome, heard);
    for (const { topic, payloads } of runs) {
      if (!connection.isOpen() || direct.grantedQos(step.session, topic, true) === undefined) continue;
      for (const payload of payloads) this.publish(topic, payload, null);
    }
    this.#pushes.add(runs.map((run) => ({ run, subscriptions: outcome.subscriptions })));
  }

  #awaitRest(connection: DirectConnection): void {
    connection.setDeadline(directLimits.connectMs, () => {
      if (connection.phase === 'connecting') this.#drop(connection, 1008, 'CONNECT not received in time');
      else if (connection.phase === 'open') this.#endByService(connection, { reason: 'packet_unfinished' });
    });
  }

  #endByService(connection: DirectConnection, end: DirectEnd): void {
    if (connection.phase === 'connecting') {
      this.#drop(connection, codes.closeCodeOf(end.reason), end.reason);
      return;
    }
    if (connection.phase === 'ended') return;
    const ended = endOf(connection, end, Date.now());
    this.#close(connection, end);
    this.#device.decide({ kind: 'direct_ended', end: ended });
  }

  #refuse(connection: DirectConnection, level: ProtocolLevel, refusal: ConnectRefusal, cause?: object): void {
    connection.send(encodeConnack(level, codes.connackCodeOf(level, refusal)));
    this.#log('info', refusedDirectLoginEvent, { refusal, ...cause });
    this.#leave(connection);
    closeIfOpen(connection.socket, 1008, refusal);
  }

  #drop(connection: DirectConnection, code: number, cause: string): void {
    this.#log('info', 'direct connection closed before a session', { code, cause });
    // A socket that was sent nothing keeps its connection until the object sleeps: no bytes of MQTT are something.
    connection.send(new Uint8Array(0));
    this.#leave(connection);
    closeIfOpen(connection.socket, code, cause);
  }

  #close(connection: DirectConnection, end: DirectEnd): void {
    const { reason } = end;
    const isByDevice = reason === 'clean' || reason === 'with_will';
    // MQTT 3.1.1 has no DISCONNECT of the server.
    if (connection.session?.level === 5 && !isByDevice)
      connection.send(encodeDisconnect(codes.disconnectCodeOf(reason)));
    const clause = end.malformed && malformedClauses[end.malformed];
    this.#log('info', 'direct session ended', { ...end, clause });
    this.#leave(connection);
    closeIfOpen(connection.socket, codes.closeCodeOf(reason), reason);
  }

  #leave(connection: DirectConnection): void {
    connection.clearDeadline();
    connection.phase = 'ended';
    if (connection.socket.readyState === WebSocket.OPEN) connection.save();
  }

  #open(): { connection: DirectConnection; session: DirectSession } | undefined {
    for (const connection of this.#connections.values()) {
      const { session } = connection;
      if (connection.isOpen() && session !== null) return { connection, session };
    }
    return undefined;
  }

  #log(level: 'info' | 'error', event: string, fields: object): void {
    log(level, event, { deviceId: this.#ctx.id.name, ...fields });
  }
}

function endOf({ session }: DirectConnection, { reason, topic }: DirectEnd, nowMs: number): DirectSessionEnd {
  return { startedAtMs: session?.startedAtMs ?? 0, reason, topic, will: session?.will ?? null, endedAtMs: nowMs };
}
