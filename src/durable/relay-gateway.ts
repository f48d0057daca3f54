// One shard of the WebSocket relay (interface 6): who its sockets are, what each may see, and pushing to them.
// Asks DeviceSession whether credentials are right; never touches the broker or a device's presence.
import { DurableObject } from 'cloudflare:workers';
import { readConfig } from '../config.ts';
import { digestOf } from '../crypto/secrets.ts';
import { verifyAccessToken } from '../crypto/tokens.ts';
import { wireErrorOf, type Refusal } from '../domain/refusal.ts';
import { parseJson } from '../domain/json.ts';
import { mayUse, rightsOfDevice } from '../domain/topic-rights.ts';
import { isSameDevice, parseFilter, parseMessagingName } from '../domain/topics.ts';
import { isAtOrBelow, noHighWaterMarks, raise, type HighWaterMarks } from '../domain/device/deduplication.ts';
import { log } from '../log.ts';
import { maxRelayFrameBytes, relayRequestSchema, type RelayRequest } from '../protocol/relay.ts';
import { RelayIndex } from './relay-index.ts';
import { publishFor } from './relay-publish.ts';
import type { RelayRun } from './relay-push.ts';
import {
  closeQuietly,
  maxAttachmentBytes,
  readClient,
  relayCodeOf,
  reply,
  sendQuietly,
  writeClient,
  type RelayClient,
} from './relay-socket.ts';
import { callDevice } from './stubs.ts';

const authenticateWithinMs = 10_000;
const maxFailedAuths = 3;
const maxFilters = { device: 20, user: 200 } as const;

type Identity = NonNullable<RelayClient['who']>;
const relayActions = ['auth', 'subscribe', 'unsubscribe', 'publish'] as const;
type AuthRequest = Extract<RelayRequest, { action: 'auth' }>;
type TopicRequest = Extract<RelayRequest, { topic: string }>;

export class RelayGateway extends DurableObject<Env> {
  readonly #index = new RelayIndex();
  /** Frames of one socket are handled one after the other: `subscribe` may follow `auth` without waiting. */
  readonly #queues = new Map<WebSocket, Promise<void>>();
  /** What was pushed already, per device, for batches that a bridge sends again. */
  readonly #pushed = new Map<string, HighWaterMarks>();
  /** Devices whose sessions were told that this shard listens, before a socket of it does. */
  readonly #signingUp = new Map<string, number>();

  /** Of those that are signing up, the devices whose credentials ended meanwhile. */
  readonly #revoked = new Set<string>();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair('{"action":"ping"}', '{"action":"pong"}'));
    for (const socket of ctx.getWebSockets()) {
      const client = readClient(socket);
      if (!client.isEnded) this.#index.put(socket, client);
    }
  }

  override async fetch(): Promise<Response> {
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    const openedAtMs = Date.now();
    this.#change(server, { openedAtMs, failedAuths: 0, who: null, filters: [], isEnded: false });
    await this.#wakeBy(openedAtMs + authenticateWithinMs);
    return new Response(null, { status: 101, webSocket: client });
  }

  /** Pushes a batch; answers for which devices nobody listens here. */
  push(runs: RelayRun[]): { nobodyFor: string[] } {
    // Nobody comes or goes between the messages of one push: nothing is awaited here.
    for (const run of runs) {
      const { deviceId, topic, payloads, origin } = run;
      const isPushed = this.#findPushed(run);
      const listeners = this.#index.listenersTo(deviceId, topic).filter((socket) => this.#isStillAllowed(socket));
      if (listeners.length === 0) continue;
      const start = `{"topic":${JSON.stringify(topic)},"payload":`;
      for (const [position, payload] of payloads.entries()) {
        if (isPushed(position)) continue;
        const isJson = origin?.results[position] === 'accepted' || parseJson(payload) !== undefined;
        // The payload as it came is the parsed JSON written again; anything else goes as a string.
        const text = `${start}${isJson ? payload : JSON.stringify(payload)}}`;
        for (const socket of listeners) sendQuietly(socket, text);
      }
    }
    const deviceIds = new Set(runs.map(({ deviceId }) => deviceId));
    const nobodyFor = [...deviceIds].filter((deviceId) => !this.#hasListeners(deviceId));
    for (const deviceId of nobodyFor) this.#pushed.delete(deviceId);
    return { nobodyFor };
  }

  /** Ends what was allowed by a device's credentials, or, for a deleted device, by owning it. */
  revoke(deviceId: string, cause: 'deleted' | 'disabled' | 'credentials rotated'): void {
    for (const socket of this.#index.socketsOf(deviceId)) {
      const client = readClient(socket);
      if (client.who?.kind === 'device') {
        this.#end(socket, 1008, cause);
      } else if (cause === 'deleted') {
        const filters = client.filters.filter((filter) => parseFilter(filter)?.device.deviceId !== deviceId);
        this.#change(socket, { ...client, filters });
      }
    }
    if (this.#signingUp.has(deviceId)) this.#revoked.add(deviceId);
    this.#pushed.delete(deviceId);
  }

  override async webSocketMessage(socket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    if (byteLengthOf(data) > maxRelayFrameBytes) {
      this.#end(socket, 1009, 'frame larger than 16 KiB');
      return;
    }
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

  /** Closes sockets that did not say in time who they are, and those whose token has expired. */
  override async alarm(): Promise<void> {
    let nextMs = Infinity;
    for (const [socket, client] of this.#index.clients()) {
      const deadlineMs = deadlineOf(client);
      if (deadlineMs > Date.now()) nextMs = Math.min(nextMs, deadlineMs);
      else this.#end(socket, 1008, client.who === null ? 'not authenticated in time' : 'token expired');
    }
    if (nextMs < Infinity) await this.#wakeBy(nextMs);
  }

  /** Never throws: the frames behind this one wait for it. */
  async #handle(socket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    // Closed by an earlier frame: nobody is there to be answered.
    if (this.#index.clientOf(socket) === undefined) return;
    const body = typeof data === 'string' ? parseJson(data) : undefined;
    const request = relayRequestSchema.safeParse(body);
    if (!request.success) {
      refuseUnreadable(socket, body);
      return;
    }
    try {
      await this.#answer(socket, request.data);
    } catch (error) {
      // The device's object could not be reached. Nothing is in effect; the client may try again.
      log('warn', 'relay request failed', { error: String(error) });
      reply(socket, { action: request.data.action, code: 500, message: 'internal_error' });
    }
  }

  async #answer(socket: WebSocket, request: RelayRequest): Promise<void> {
    switch (request.action) {
      case 'auth':
        await this.#authenticate(socket, request);
        break;
      case 'subscribe':
        answerTopic(socket, request, await this.#refuseSubscription(socket, request.topic));
        break;
      case 'unsubscribe':
        this.#unsubscribe(socket, request);
        break;
      case 'publish':
        answerTopic(socket, request, await publishFor(this.env, this.#index.clientOf(socket)?.who ?? null, request));
        break;
      case 'ping':
        reply(socket, { action: 'pong' });
        break;
    }
  }

  async #authenticate(socket: WebSocket, request: AuthRequest): Promise<void> {
    const outcome = 'token' in request ? await this.#checkToken(request.token) : await this.#checkDevice(request);
    const client = this.#index.clientOf(socket);
    if (client === undefined) return;
    if ('refusal' in outcome) {
      const failedAuths = client.failedAuths + 1;
      this.#change(socket, { ...client, failedAuths });
      // Statuses of the HTTP interface do not apply: a failed auth is always 401 here (decisions, Relay).
      reply(socket, { action: 'auth', code: 401, message: wireErrorOf(outcome.refusal).message });
      if (failedAuths >= maxFailedAuths) this.#end(socket, 1008, 'too many failed authentications');
      return;
    }
    const { who } = outcome;
    // Another identity keeps nothing of what the former was allowed to see.
    this.#change(socket, { ...client, who, filters: isSameClient(client.who, who) ? client.filters : [] });
    reply(socket, { action: 'auth', code: 200, message: 'success' });
    if (who.kind === 'user') await this.#wakeBy(who.expiresAtMs);
  }

  async #checkToken(token: string): Promise<{ who: Identity } | { refusal: Refusal }> {
    const access = await verifyAccessToken(readConfig(this.env), token);
    if (!access.ok) return access;
    return { who: { kind: 'user', userId: access.value.userId, expiresAtMs: access.value.expiresAtMs } };
  }

  async #checkDevice(
    request: Extract<AuthRequest, { username: string }>,
  ): Promise<{ who: Identity } | { refusal: Refusal }> {
    const named = parseMessagingName(request.username);
    if (named === undefined) return { refusal: { kind: 'not_found', what: 'device' } };
    const passwordDigest = await digestOf(request.password);
    const { productKey, deviceId } = named;
    return this.#signUp(deviceId, async (relayShard) => {
      const outcome = await callDevice(this.env, deviceId, 'authenticate', 'repeatable', (device) =>
        device.authenticate({ productKey, passwordDigest, relayShard }),
      );
      if (!outcome.ok) return { refusal: outcome.refusal };
      // Revoked again before the answer was here: there was no socket yet to be closed.
      if (this.#revoked.has(deviceId)) {
        return { refusal: { kind: 'credential_refused', credential: 'messaging_password', problem: 'revoked' } };
      }
      return { who: { kind: 'device', ...outcome.value } };
    });
  }

  /** Subscribes, or says why not. */
  async #refuseSubscription(socket: WebSocket, topic: string): Promise<Refusal | undefined> {
    const client = this.#index.clientOf(socket);
    const who = client?.who;
    if (client === undefined || who === undefined || who === null) {
      return { kind: 'credential_refused', credential: 'session', problem: 'missing' };
    }
    const device = parseFilter(topic)?.device;
    const forbidden = { kind: 'topic_forbidden', action: 'subscribe', topic } as const;
    if (device === undefined) return forbidden;
    const use = { action: 'subscribe' as const, topic };
    if (!mayUse(rightsOfDevice(who.kind === 'device' ? who : device), use)) return forbidden;
    if (client.filters.includes(topic)) return undefined;
    if (client.filters.length >= maxFilters[who.kind]) {
      return { kind: 'limit_reached', limit: { name: 'relay_subscriptions', max: maxFilters[who.kind] } };
    }
    // A device's socket is signed up since it authenticated.
    if (who.kind === 'device') return this.#addFilter(socket, topic);
    return this.#signUp(device.deviceId, async (shard) => {
      const outcome = await callDevice(this.env, device.deviceId, 'subscribe', 'repeatable', (session) =>
        session.subscribe(who.userId, device.productKey, shard, topic),
      );
      // Whether somebody else's device exists is nobody's business on this channel.
      return outcome.ok ? this.#addFilter(socket, topic) : forbidden;
    });
  }

  #addFilter(socket: WebSocket, topic: string): Refusal | undefined {
    const client = this.#index.clientOf(socket);
    if (client === undefined) {
      return { kind: 'credential_refused', credential: 'session', problem: 'expired' };
    }
    const isKept = this.#change(socket, { ...client, filters: [...client.filters, topic] });
    return isKept
      ? undefined
      : { kind: 'limit_reached', limit: { name: 'relay_attachment_bytes', max: maxAttachmentBytes } };
  }

  /**
   * Between a session's noting this shard and this shard's noting the socket, a push would find nobody here and have
   * the shard dropped again: `hasListeners` counts those under way.
   */
  async #signUp<T>(deviceId: string, ask: (shard: string) => Promise<T>): Promise<T> {
    this.#signingUp.set(deviceId, (this.#signingUp.get(deviceId) ?? 0) + 1);
    try {
      return await ask(this.ctx.id.name ?? '');
    } finally {
      const left = (this.#signingUp.get(deviceId) ?? 1) - 1;
      if (left > 0) this.#signingUp.set(deviceId, left);
      else {
        this.#signingUp.delete(deviceId);
        this.#revoked.delete(deviceId);
      }
    }
  }

  #unsubscribe(socket: WebSocket, { topic }: TopicRequest): void {
    const client = this.#index.clientOf(socket);
    if (client === undefined || client.who === null) {
      reply(socket, { action: 'unsubscribe', topic, code: 401, message: 'unauthorized' });
      return;
    }
    this.#change(socket, { ...client, filters: client.filters.filter((filter) => filter !== topic) });
    reply(socket, { action: 'unsubscribe', topic, code: 200, message: 'success' });
  }

  #hasListeners(deviceId: string): boolean {
    return this.#signingUp.has(deviceId) || this.#index.socketsOf(deviceId).length > 0;
  }

  /** A user's socket lives no longer than its token; the alarm that closes it may be late. */
  #isStillAllowed(socket: WebSocket): boolean {
    const client = this.#index.clientOf(socket);
    return client !== undefined && deadlineOf(client) > Date.now();
  }

  /** Which of the messages an earlier push had, or cannot be told from such. They count as pushed from here on. */
  #findPushed({ deviceId, origin }: RelayRun): (position: number) => boolean {
    if (origin === undefined) return () => false;
    const { spoolId, seqs, results } = origin;
    const marks = this.#pushed.get(deviceId);
    const pushed = new Set<number>();
    let highest = 0;
    for (const [position, seq] of seqs.entries()) {
      // Pushed before this object last slept, as far as anybody can know.
      const isForgotten = marks === undefined && highest === 0 && results[position] === 'duplicate';
      const isOld = isForgotten || seq <= highest || isAtOrBelow(marks ?? noHighWaterMarks, spoolId, seq);
      // The number of a repeated one is kept as well: the bridge may retry it, and then it is only known to be taken.
      if (!isOld) highest = seq;
      if (isOld || results[position] === 'redelivery') pushed.add(position);
    }
    if (highest > 0) this.#pushed.set(deviceId, raise(marks ?? noHighWaterMarks, spoolId, highest));
    return (position) => pushed.has(position);
  }

  #change(socket: WebSocket, client: RelayClient): boolean {
    if (!writeClient(socket, client)) return false;
    this.#index.put(socket, client);
    return true;
  }

  #end(socket: WebSocket, code: number, reason: string): void {
    this.#forget(socket);
    closeQuietly(socket, code, reason);
  }

  #forget(socket: WebSocket): void {
    for (const deviceId of this.#index.remove(socket)) {
      if (!this.#hasListeners(deviceId)) this.#pushed.delete(deviceId);
    }
    // A close that is not answered yet survives a sleep: nothing must be pushed to the socket after it.
    writeClient(socket, { ...readClient(socket), isEnded: true, filters: [] });
  }

  async #wakeBy(atMs: number): Promise<void> {
    const plannedMs = await this.ctx.storage.getAlarm();
    if (plannedMs === null || plannedMs > atMs) await this.ctx.storage.setAlarm(atMs);
  }
}

/** When a socket is closed unless it says who it is, or brings a fresh token. */
function deadlineOf({ who, openedAtMs }: RelayClient): number {
  if (who === null) return openedAtMs + authenticateWithinMs;
  return who.kind === 'user' ? who.expiresAtMs : Infinity;
}

function isSameClient(one: RelayClient['who'], other: Identity): boolean {
  if (one?.kind === 'device' && other.kind === 'device') return isSameDevice(one, other);
  return one?.kind === 'user' && other.kind === 'user' && one.userId === other.userId;
}

function byteLengthOf(data: string | ArrayBuffer): number {
  if (typeof data !== 'string') return data.byteLength;
  // Counting bytes is for the frames that are near the limit.
  return data.length > maxRelayFrameBytes ? data.length : new TextEncoder().encode(data).length;
}

function answerTopic(
  socket: WebSocket,
  { action, topic }: { action: 'subscribe' | 'publish'; topic: string },
  refusal: Refusal | undefined,
): void {
  if (refusal === undefined) {
    reply(socket, { action, topic, code: 200, message: 'success' });
    return;
  }
  const { message, detail } = wireErrorOf(refusal);
  const text = detail === undefined ? message : `${message}: ${detail}`;
  reply(socket, { action, topic, code: relayCodeOf(message), message: text });
}

function refuseUnreadable(socket: WebSocket, body: unknown): void {
  const named = typeof body === 'object' && body !== null && 'action' in body ? body.action : undefined;
  const action = relayActions.find((known) => known === named) ?? 'error';
  reply(socket, { action, code: 400, message: 'invalid_request' });
}
