// One shard of the WebSocket relay (interface 6): who its sockets are, what each may see, and pushing to them.
// Asks DeviceSession whether credentials are right; never touches the broker or a device's presence.
import { DurableObject } from 'cloudflare:workers';
import { readConfig } from '../config.ts';
import { digestOf } from '../crypto/secrets.ts';
import { verifyAccessToken } from '../crypto/tokens.ts';
import type { ErrorMessage } from '../domain/errors.ts';
import { statusOf } from '../domain/errors.ts';
import { parseJson } from '../domain/property-report.ts';
import { parseFilter, parseMessagingName } from '../domain/topics.ts';
import { isTaken, noMarks, take, type UplinkMarks } from '../domain/uplink-marks.ts';
import { maxRelayFrameBytes, relayRequestSchema, type RelayRequest } from '../protocol/relay.ts';
import { RelayIndex } from './relay-index.ts';
import type { RelayMessage } from './relay-push.ts';
import { closeQuietly, readClient, reply, sendQuietly, writeClient, type RelayClient } from './relay-socket.ts';
import { deviceSession } from './stubs.ts';

const authenticateWithinMs = 10_000;
const maxFailedAuths = 3;
const maxFilters = { device: 20, user: 200 } as const;

type AuthRequest = Extract<RelayRequest, { action: 'auth' }>;
type TopicRequest = Extract<RelayRequest, { topic: string }>;

export class RelayGateway extends DurableObject<Env> {
  readonly #index = new RelayIndex();
  /** Frames of one socket are handled one after the other: `subscribe` may follow `auth` without waiting. */
  readonly #queues = new Map<WebSocket, Promise<void>>();
  /** What was pushed already, per device, for batches that a bridge sends again. */
  readonly #pushed = new Map<string, UplinkMarks>();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair('{"action":"ping"}', '{"action":"pong"}'));
    for (const socket of ctx.getWebSockets()) this.#index.put(socket, readClient(socket));
  }

  override async fetch(): Promise<Response> {
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    const openedAtMs = Date.now();
    writeClient(server, { openedAtMs, failedAuths: 0, who: null, filters: [] });
    if ((await this.ctx.storage.getAlarm()) === null) {
      await this.ctx.storage.setAlarm(openedAtMs + authenticateWithinMs);
    }
    return new Response(null, { status: 101, webSocket: client });
  }

  /** Pushes a batch; answers for which devices nobody listens here. */
  push(messages: RelayMessage[]): { nobodyFor: string[] } {
    for (const message of messages) {
      const listeners = this.#isPushedAlready(message) ? [] : this.#index.listenersTo(message.deviceId, message.topic);
      if (listeners.length === 0) continue;
      const payload = parseJson(message.payload);
      // The payload as it came is the parsed JSON written again; anything else goes as a string.
      const json = payload === undefined ? JSON.stringify(message.payload) : message.payload;
      const text = `{"topic":${JSON.stringify(message.topic)},"payload":${json}}`;
      for (const socket of listeners) if (this.#isStillAllowed(socket)) sendQuietly(socket, text);
    }
    const deviceIds = new Set(messages.map(({ deviceId }) => deviceId));
    return { nobodyFor: [...deviceIds].filter((deviceId) => this.#index.socketsOf(deviceId).length === 0) };
  }

  /** Ends what was allowed by a device's credentials, or, for a deleted device, by owning it. */
  revoke(deviceId: string, cause: 'deleted' | 'disabled' | 'credentials rotated'): void {
    for (const socket of this.#index.socketsOf(deviceId)) {
      const client = readClient(socket);
      if (client.who?.kind === 'device') {
        this.#forget(socket);
        closeQuietly(socket, 1008, cause);
      } else if (cause === 'deleted') {
        const filters = client.filters.filter((filter) => parseFilter(filter)?.device.deviceId !== deviceId);
        this.#change(socket, { ...client, filters });
      }
    }
    this.#pushed.delete(deviceId);
  }

  override async webSocketMessage(socket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    const queued = (this.#queues.get(socket) ?? Promise.resolve()).then(() => this.#handle(socket, data));
    this.#queues.set(socket, queued);
    await queued;
    if (this.#queues.get(socket) === queued) this.#queues.delete(socket);
  }

  override webSocketClose(socket: WebSocket, code: number): void {
    // A client that closes without being answered waits ten seconds and reports 1006.
    closeQuietly(socket, code === 1005 || code === 1006 ? 1000 : code, '');
    this.#forget(socket);
  }

  override webSocketError(socket: WebSocket): void {
    this.#forget(socket);
  }

  /** Closes sockets that did not say in time who they are. */
  override async alarm(): Promise<void> {
    const waiting = this.ctx.getWebSockets().filter((socket) => readClient(socket).who === null);
    const dueAtMs: number[] = [];
    for (const socket of waiting) {
      const deadlineMs = readClient(socket).openedAtMs + authenticateWithinMs;
      if (deadlineMs <= Date.now()) closeQuietly(socket, 1008, 'not authenticated in time');
      else dueAtMs.push(deadlineMs);
    }
    if (dueAtMs.length > 0) await this.ctx.storage.setAlarm(Math.min(...dueAtMs));
  }

  async #handle(socket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    const size = typeof data === 'string' ? new TextEncoder().encode(data).length : data.byteLength;
    if (size > maxRelayFrameBytes) {
      this.#forget(socket);
      closeQuietly(socket, 1009, 'frame larger than 16 KiB');
      return;
    }
    const body = typeof data === 'string' ? parseJson(data) : undefined;
    const request = relayRequestSchema.safeParse(body);
    if (!request.success) {
      refuseUnreadable(socket, body);
      return;
    }
    switch (request.data.action) {
      case 'auth':
        await this.#authenticate(socket, request.data);
        break;
      case 'subscribe':
        await this.#subscribe(socket, request.data);
        break;
      case 'unsubscribe':
        this.#unsubscribe(socket, request.data);
        break;
      case 'ping':
        reply(socket, { action: 'pong' });
        break;
    }
  }

  async #authenticate(socket: WebSocket, request: AuthRequest): Promise<void> {
    const outcome = 'token' in request ? await this.#checkToken(request.token) : await this.#checkDevice(request);
    const client = readClient(socket);
    if ('error' in outcome) {
      const failedAuths = client.failedAuths + 1;
      this.#change(socket, { ...client, failedAuths });
      // Statuses of the HTTP interface do not apply: a failed auth is always 401 here (decisions, Relay).
      reply(socket, { action: 'auth', code: 401, message: outcome.error });
      if (failedAuths >= maxFailedAuths) {
        this.#forget(socket);
        closeQuietly(socket, 1008, 'too many failed authentications');
      }
      return;
    }
    // Another identity keeps nothing of what the former was allowed to see.
    this.#change(socket, { ...client, failedAuths: 0, who: outcome.who, filters: [] });
    reply(socket, { action: 'auth', code: 200, message: 'success' });
  }

  async #checkToken(token: string): Promise<{ who: RelayClient['who'] } | { error: ErrorMessage }> {
    const user = await verifyAccessToken(readConfig(this.env), token);
    return user === undefined ? { error: 'unauthorized' } : { who: { kind: 'user', ...user } };
  }

  async #checkDevice(
    request: Extract<AuthRequest, { username: string }>,
  ): Promise<{ who: RelayClient['who'] } | { error: ErrorMessage }> {
    const named = parseMessagingName(request.username);
    if (named === undefined) return { error: 'device_not_found' };
    const outcome = await deviceSession(this.env, named.deviceId).authenticate({
      productKey: named.productKey,
      passwordDigest: await digestOf(request.password),
      relayShard: this.ctx.id.name ?? '',
    });
    return outcome.ok ? { who: { kind: 'device', ...outcome.value } } : { error: outcome.error };
  }

  async #subscribe(socket: WebSocket, { topic }: TopicRequest): Promise<void> {
    const refusal = await this.#refuseSubscription(socket, topic);
    if (refusal !== undefined) {
      const message = refusal.detail === undefined ? refusal.error : `${refusal.error}: ${refusal.detail}`;
      reply(socket, { action: 'subscribe', topic, code: statusOf(refusal.error), message });
      return;
    }
    reply(socket, { action: 'subscribe', topic, code: 200, message: 'success' });
  }

  /** Subscribes, or says why not. */
  async #refuseSubscription(
    socket: WebSocket,
    topic: string,
  ): Promise<{ error: ErrorMessage; detail?: string } | undefined> {
    const { who } = readClient(socket);
    if (who === null || !this.#isStillAllowed(socket)) return { error: 'unauthorized' };
    const device = parseFilter(topic)?.device;
    if (device === undefined) return { error: 'forbidden' };
    if (who.kind === 'device') {
      if (device.deviceId !== who.deviceId || device.productKey !== who.productKey) return { error: 'forbidden' };
    } else {
      const shard = this.ctx.id.name ?? '';
      const outcome = await deviceSession(this.env, device.deviceId).watch(who.userId, device.productKey, shard);
      // Whether somebody else's device exists is nobody's business on this channel.
      if (!outcome.ok) return { error: 'forbidden' };
    }
    const client = readClient(socket);
    if (client.filters.includes(topic)) return undefined;
    if (client.filters.length >= maxFilters[who.kind]) {
      return { error: 'invalid_request', detail: `topic: at most ${maxFilters[who.kind]} subscriptions a socket` };
    }
    const isKept = this.#change(socket, { ...client, filters: [...client.filters, topic] });
    return isKept ? undefined : { error: 'invalid_request', detail: 'topic: no room for another one on this socket' };
  }

  #unsubscribe(socket: WebSocket, { topic }: TopicRequest): void {
    const client = readClient(socket);
    if (client.who === null) {
      reply(socket, { action: 'unsubscribe', topic, code: 401, message: 'unauthorized' });
      return;
    }
    this.#change(socket, { ...client, filters: client.filters.filter((filter) => filter !== topic) });
    reply(socket, { action: 'unsubscribe', topic, code: 200, message: 'success' });
  }

  /** A user's socket lives no longer than the token it was opened with. */
  #isStillAllowed(socket: WebSocket): boolean {
    const who = this.#index.clientOf(socket)?.who;
    if (who?.kind !== 'user' || who.expiresAtMs > Date.now()) return true;
    this.#forget(socket);
    closeQuietly(socket, 1008, 'token expired');
    return false;
  }

  #isPushedAlready({ deviceId, origin }: RelayMessage): boolean {
    if (origin === undefined) return false;
    const marks = this.#pushed.get(deviceId);
    // Pushed before this object last slept, as far as anybody can know.
    if (marks === undefined && origin.isAgain) return true;
    if (isTaken(marks ?? noMarks, origin.spoolId, origin.seq)) return true;
    this.#pushed.set(deviceId, take(marks ?? noMarks, origin.spoolId, origin.seq, ''));
    return false;
  }

  #change(socket: WebSocket, client: RelayClient): boolean {
    if (!writeClient(socket, client)) return false;
    this.#index.put(socket, client);
    return true;
  }

  #forget(socket: WebSocket): void {
    for (const filter of readClient(socket).filters) {
      const deviceId = parseFilter(filter)?.device.deviceId;
      if (deviceId !== undefined && this.#index.socketsOf(deviceId).length <= 1) this.#pushed.delete(deviceId);
    }
    this.#index.remove(socket);
    writeClient(socket, { ...readClient(socket), who: null, filters: [] });
  }
}

function refuseUnreadable(socket: WebSocket, body: unknown): void {
  const named = typeof body === 'object' && body !== null && 'action' in body ? body.action : undefined;
  const action = named === 'auth' || named === 'subscribe' || named === 'unsubscribe' ? named : 'error';
  reply(socket, { action, code: 400, message: 'invalid_request' });
}
