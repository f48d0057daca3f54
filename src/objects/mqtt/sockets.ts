// The MQTT sockets of one object, a device's or a home's: opens them, reads CONNECT and the packets after it, and ends them. Who may
// log in and what packets mean, its subclasses say. Owns no rule of MQTT, which domain/direct has, and no other state.
import type { Config } from '../../config.ts';
import * as codes from '../../domain/direct/answer-codes.ts';
import type { ConnectRefusal } from '../../domain/direct/answer-codes.ts';
import { readConnect } from '../../domain/direct/connect.ts';
import { directLimits } from '../../domain/direct/direct-limits.ts';
import {
  takePackets,
  type DirectEnd,
  type DirectSession,
  type DirectStep,
  type SessionRules,
} from '../../domain/direct/session.ts';
import { describeError, log } from '../../log.ts';
import type { ConnectPacket, ProtocolLevel } from '../../protocol/mqtt-codec/client-packets.ts';
import { refusedDirectLoginEvent } from '../../protocol/log-events.ts';
import { malformedClauses } from '../../protocol/mqtt-codec/malformed.ts';
import { pubackType, publishType } from '../../protocol/mqtt-codec/packet-reader.ts';
import { encodeConnack, encodeDisconnect, type Announced } from '../../protocol/mqtt-codec/server-packets.ts';
import { answerClose, clientAddressOf, closeIfOpen } from '../calls/open-socket.ts';
import { DirectConnection } from './connection.ts';

/** Asked by the Worker that carries a socket: the answer comes behind all that was sent before, and wakes no object. */
export const takenCheck = { ask: 'taken?', answer: 'taken' } as const;

export abstract class MqttSockets<Action extends string> {
  readonly #ctx: DurableObjectState;
  readonly #config: Config;
  readonly #about: Record<string, unknown>;
  readonly #connections = new Map<WebSocket, DirectConnection>();

  /** @param about for the log */
  constructor(ctx: DurableObjectState, config: Config, about: Record<string, unknown>) {
    this.#ctx = ctx;
    this.#config = config;
    this.#about = about;
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(takenCheck.ask, takenCheck.answer));
    for (const socket of ctx.getWebSockets()) this.#connections.set(socket, DirectConnection.wake(socket));
  }

  protected abstract rules(): SessionRules<Action> | undefined;

  /** Ends in `begin` or `refuse`. While it runs, the connection waits. */
  protected abstract logIn(connection: DirectConnection, packet: ConnectPacket): Promise<void>;

  /** What the packets of one wake-up say, which it answers. @throws if nothing of it was written */
  protected abstract take(connection: DirectConnection, step: DirectStep<Action>): void;

  /** A session has ended, and the owner did not ask for it. */
  protected abstract ended(connection: DirectConnection, end: DirectEnd): void;

  accept(request: Request): Response {
    const address = clientAddressOf(request);
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

  protected open(): { connection: DirectConnection; session: DirectSession }[] {
    return [...this.#connections.values()].flatMap((connection) => {
      const { session } = connection;
      return connection.isOpen() && session !== null ? [{ connection, session }] : [];
    });
  }

  protected isConnecting({ socket }: DirectConnection): boolean {
    return this.#connections.get(socket)?.phase === 'connecting';
  }

  /** Never rejects. */
  async receive(socket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    const connection = this.#connections.get(socket);
    if (connection === undefined || connection.phase === 'ended') return;
    if (typeof data === 'string') {
      // MQTT-6.0.0-1
      this.endByService(connection, { reason: 'text_frame' });
      return;
    }
    connection.reader.push(new Uint8Array(data));
    if (connection.phase === 'connecting') await this.#connect(connection);
    else if (!connection.gathering.isWaiting) this.#takeOrGather(connection);
  }

  closed(socket: WebSocket, code: number): void {
    answerClose(socket, code);
    this.#forget(socket);
  }

  failed(socket: WebSocket, error: unknown): void {
    this.log('info', 'direct connection failed', describeError(error));
    this.#forget(socket);
  }

  /** @param told to a client of MQTT 5 */
  protected begin(
    connection: DirectConnection,
    session: DirectSession,
    told: Pick<Announced, 'keepAliveSeconds' | 'assignedClientId'> = {},
  ): void {
    connection.phase = 'open';
    connection.session = session;
    connection.clearDeadline();
    connection.save();
    const { directPacketBytes: maxPacketBytes } = this.#config.limits;
    const { receiveMaximum } = directLimits;
    const { takesSubscriptionIds = false } = this.rules() ?? {};
    const announced = { maxPacketBytes, receiveMaximum, takesSubscriptionIds, ...told };
    connection.send(encodeConnack(session.level, 0, announced));
    this.log('info', 'direct session began', {
      mqttLevel: session.level,
      keepAliveSeconds: session.keepAliveSeconds,
    });
    this.drain(connection);
  }

  protected refuse(connection: DirectConnection, level: ProtocolLevel, refusal: ConnectRefusal, cause?: object): void {
    connection.send(encodeConnack(level, codes.connackCodeOf(level, refusal)));
    this.log('info', refusedDirectLoginEvent, { refusal, ...cause });
    this.#leave(connection);
    closeIfOpen(connection.socket, 1008, refusal);
  }

  /** Takes all whole packets: one step, and the answers once the owner has it. @returns how many it acknowledged */
  protected drain(connection: DirectConnection): number {
    const { session } = connection;
    const rules = this.rules();
    if (!connection.isOpen() || session === null || rules === undefined) return 0;
    const nowMs = Date.now();
    const read = { packets: 0, isTooFast: false };
    const step = takePackets(session, connection.packets(this.#config, read, nowMs), rules, nowMs);
    if (read.isTooFast) step.end ??= { reason: 'too_many_packets' };
    connection.session = step.session;
    try {
      this.take(connection, step);
    } catch (error) {
      // Nothing was written, and nothing is acknowledged: the client sends it again.
      this.log('error', 'direct packets not saved', describeError(error));
      this.endByService(connection, { reason: 'failed' });
      return 0;
    }
    if (!connection.isOpen()) return 0;
    if (connection.reader.waiting === 0) connection.clearDeadline();
    else if (read.packets > 0 || !connection.hasDeadline) this.#awaitRest(connection);
    connection.save();
    return step.unacknowledged;
  }

  /** The owner learns of it. */
  protected endByService(connection: DirectConnection, end: DirectEnd): void {
    if (connection.phase === 'connecting') {
      this.#drop(connection, codes.closeCodeOf(end.reason), end.reason);
      return;
    }
    if (connection.phase === 'ended') return;
    this.close(connection, end);
    this.ended(connection, end);
  }

  /** The owner knows of it. */
  protected close(connection: DirectConnection, end: DirectEnd): void {
    const { reason } = end;
    const isByClient = reason === 'clean' || reason === 'with_will';
    // MQTT 3.1.1 has no DISCONNECT of the server.
    if (connection.session?.level === 5 && !isByClient)
      connection.send(encodeDisconnect(codes.disconnectCodeOf(reason)));
    const clause = end.malformed && malformedClauses[end.malformed];
    this.log('info', 'direct session ended', { ...end, clause });
    this.#leave(connection);
    closeIfOpen(connection.socket, codes.closeCodeOf(reason), reason);
  }

  protected log(level: 'info' | 'warn' | 'error', event: string, fields: object): void {
    log(level, event, { ...this.#about, ...fields });
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
    connection.gathering.come(first, directLimits.gatherMs, () => this.drain(connection));
  }

  #forget(socket: WebSocket): void {
    // A socket that closed in a sleep is not among those that the object wakes with.
    const connection = this.#connections.get(socket) ?? DirectConnection.wake(socket);
    this.drain(connection);
    const wasOpen = connection.isOpen();
    this.#leave(connection);
    this.#connections.delete(socket);
    if (wasOpen) this.ended(connection, { reason: 'lost' });
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
    else if ('refusal' in first) this.refuse(connection, first.level, first.refusal);
    else {
      connection.isLoggingIn = true;
      try {
        await this.logIn(connection, first);
      } catch (error) {
        // Nothing was written: the client tries again.
        this.log('error', 'direct login not saved', describeError(error));
        this.refuse(connection, first.level, 'unavailable');
      }
      connection.isLoggingIn = false;
    }
  }

  #awaitRest(connection: DirectConnection): void {
    connection.setDeadline(directLimits.connectMs, () => {
      if (connection.phase === 'connecting') this.#drop(connection, 1008, 'CONNECT not received in time');
      else if (connection.phase === 'open') this.endByService(connection, { reason: 'packet_unfinished' });
    });
  }

  #drop(connection: DirectConnection, code: number, cause: string): void {
    this.log('info', 'direct connection closed before a session', { code, cause });
    // A socket that was sent nothing keeps its connection until the object sleeps: no bytes of MQTT are something.
    connection.send(new Uint8Array(0));
    this.#leave(connection);
    closeIfOpen(connection.socket, code, cause);
  }

  #leave(connection: DirectConnection): void {
    connection.clearDeadline();
    connection.phase = 'ended';
    if (connection.socket.readyState === WebSocket.OPEN) connection.save();
  }
}
