// What the clients of a relay shard ask for (contract 6): each frame is read, answered, and takes effect in the order in which it
// was sent. Opens, closes and pushes to no socket by itself: that is the shard's.
import type { Config } from '../../config.ts';
import { parseJson } from '../../domain/json.ts';
import { RefusedError, refuse, wireErrorOf, type Outcome } from '../../domain/refusal.ts';
import { parseMessagingName } from '../../domain/topics.ts';
import { describeError } from '../../log.ts';
import { relayRequestSchema, type RelayReply, type RelayRequest } from '../../protocol/relay.ts';
import type { AuthRequest, RelayAuthentication } from './authentication.ts';
import type { RelayCensus } from './census.ts';
import type { RelayFrameRates } from './frame-rates.ts';
import type { RelayIndex } from './index.ts';
import {
  checkPublish,
  checkSubscription,
  hideForeign,
  identityKey,
  isSameIdentity,
  notAuthenticated,
  type RelayClient,
  type RelayIdentity,
  type SubscriptionTarget,
} from './rules.ts';
import type { RelaySnapshots } from './snapshots.ts';
import { maxAttachmentBytes, readClient, relayCodeOf, type CloseCause } from './socket.ts';
import { callDevice } from '../calls/stubs.ts';

const maxFailedAuths = 3;
const relayActions = ['auth', 'subscribe', 'unsubscribe', 'publish'] as const;

type TopicRequest = Extract<RelayRequest, { topic: string }>;
type PublishRequest = Extract<RelayRequest, { action: 'publish' }>;

/** What a request may do to the sockets of its shard. */
export type ShardSockets = {
  /** False where the attachment has no room for it. */
  change: (socket: WebSocket, client: RelayClient) => boolean;
  end: (socket: WebSocket, code: number, cause: CloseCause) => void;
  send: (socket: WebSocket, frames: string[]) => void;
  signedIn: (who: RelayIdentity) => Promise<void>;
  log: (level: 'info' | 'warn', event: string, socket: WebSocket, fields: Record<string, unknown>) => void;
};

type Parts = {
  config: Config;
  index: RelayIndex;
  census: RelayCensus<WebSocket>;
  rates: RelayFrameRates<WebSocket>;
  authentication: RelayAuthentication;
  snapshots: RelaySnapshots;
};

export class RelayRequests {
  readonly #env: Env;
  readonly #parts: Parts;
  readonly #sockets: ShardSockets;
  /** Frames of one socket are handled one after the other: `subscribe` may follow `auth` without waiting. */
  readonly #queues = new Map<WebSocket, Promise<void>>();

  constructor(env: Env, parts: Parts, sockets: ShardSockets) {
    this.#env = env;
    this.#parts = parts;
    this.#sockets = sockets;
  }

  /** Never rejects. */
  async receive(socket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    const queued = (this.#queues.get(socket) ?? Promise.resolve()).then(() => this.#handle(socket, data));
    this.#queues.set(socket, queued);
    await queued;
    if (this.#queues.get(socket) === queued) this.#queues.delete(socket);
  }

  /** Never rejects: the frames behind this one wait for it. */
  async #handle(socket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    const client = this.#parts.index.clientOf(socket);
    // Ended by an earlier frame.
    if (client === undefined) return;
    const body = typeof data === 'string' ? parseJson(data) : undefined;
    const request = relayRequestSchema.safeParse(body);
    const sender = client.who === null ? `address ${client.address}` : identityKey(client.who);
    const isTooFast =
      this.#parts.config.rateLimits === 'production' && !this.#parts.rates.mayBeSentBy(sender, Date.now());
    if (isTooFast || !request.success) {
      const named = typeof body === 'object' && body !== null && 'action' in body ? body.action : undefined;
      const action = relayActions.find((known) => known === named) ?? 'error';
      const message = isTooFast ? 'too_many_requests' : 'invalid_request';
      this.#sockets.log('info', 'relay frame not handled', socket, { action, message });
      this.#reply(socket, { action, code: 400, message });
      return;
    }
    const { action } = request.data;
    try {
      await this.#answer(socket, request.data);
    } catch (error) {
      // Nothing is in effect; the client may try again.
      const reason = error instanceof RefusedError ? error.refusal : describeError(error);
      this.#sockets.log('warn', 'relay request failed', socket, { action, ...reason });
      this.#reply(socket, { action, code: 500, message: 'internal_error' });
    }
  }

  async #answer(socket: WebSocket, request: RelayRequest): Promise<void> {
    if (request.action === 'ping') {
      this.#reply(socket, { action: 'pong' });
      return;
    }
    if (request.action === 'auth') return this.#authenticate(socket, request);
    const { action, topic } = request;
    const outcome = await this.#use(socket, request);
    if (outcome.ok) {
      this.#reply(socket, { action, topic, code: 200, message: 'success' });
      return;
    }
    this.#sockets.log('info', 'relay request refused', socket, { action, topic, ...outcome.refusal });
    const { message, detail } = wireErrorOf(
      action === 'subscribe' ? hideForeign(outcome.refusal, topic) : outcome.refusal,
    );
    const text = detail === undefined ? message : `${message}: ${detail}`;
    this.#reply(socket, { action, topic, code: relayCodeOf(message), message: text });
  }

  #use(socket: WebSocket, request: TopicRequest): Outcome<null> | Promise<Outcome<null>> {
    switch (request.action) {
      case 'subscribe':
        return this.#subscribe(socket, request.topic, request.snapshot === true);
      case 'unsubscribe':
        return this.#unsubscribe(socket, request.topic);
      case 'publish':
        return this.#publish(socket, request);
    }
  }

  async #authenticate(socket: WebSocket, request: AuthRequest): Promise<void> {
    const { address } = readClient(socket);
    const outcome = await this.#parts.authentication.authenticate(request, address);
    const client = this.#parts.index.clientOf(socket);
    if (client === undefined) return;
    if (!outcome.ok) {
      const failedAuths = client.failedAuths + 1;
      this.#sockets.change(socket, { ...client, failedAuths });
      const deviceId = 'username' in request ? parseMessagingName(request.username)?.deviceId : undefined;
      this.#sockets.log('info', 'relay request refused', socket, { action: 'auth', deviceId, ...outcome.refusal });
      // Always 401, whatever HTTP would answer (decision: relay).
      this.#reply(socket, { action: 'auth', code: 401, message: wireErrorOf(outcome.refusal).message });
      if (failedAuths >= maxFailedAuths) this.#sockets.end(socket, 1008, 'too many failed authentications');
      return;
    }
    const who = outcome.value;
    // Another identity inherits no subscriptions.
    this.#sockets.change(socket, { ...client, who, filters: isSameIdentity(client.who, who) ? client.filters : [] });
    const max = this.#parts.config.limits[who.kind === 'user' ? 'relaySocketsPerUser' : 'relaySocketsPerDevice'];
    for (const oldest of this.#parts.census.signIn(socket, identityKey(who), max)) {
      this.#sockets.end(oldest, 1008, `too many sockets of this ${who.kind}`);
    }
    this.#reply(socket, { action: 'auth', code: 200, message: 'success' });
    await this.#sockets.signedIn(who);
  }

  async #subscribe(socket: WebSocket, filter: string, wantsSnapshot: boolean): Promise<Outcome<null>> {
    const checked = checkSubscription(this.#parts.index.clientOf(socket), filter);
    if (!checked.ok) return checked;
    const { target, isNew } = checked.value;
    const devices = wantsSnapshot ? await this.#parts.snapshots.devicesOf(target) : undefined;
    if (devices?.ok === false) return devices;
    const added = isNew ? await this.#register(socket, filter, target) : done;
    if (!added.ok || devices === undefined) return added;
    await this.#parts.snapshots.send(socket, filter, target.who, devices.value, (frames) => {
      this.#sockets.send(socket, frames);
    });
    return done;
  }

  #register(socket: WebSocket, filter: string, target: SubscriptionTarget): Outcome<null> | Promise<Outcome<null>> {
    const add = () => this.#addFilter(socket, filter);
    if (target.kind === 'fleet') {
      // Its devices know of this shard for as long as one such socket is here.
      if (this.#parts.index.hasFleetOf(target.who.userId)) return add();
      return this.#parts.authentication.registerFleet(target.who.userId, add);
    }
    // The shard is registered with the device since its socket authenticated.
    if (target.who.kind === 'device') return add();
    return this.#parts.authentication.registerForUser(target.who, target.device, filter, add);
  }

  #addFilter(socket: WebSocket, filter: string): Outcome<null> {
    const client = this.#parts.index.clientOf(socket);
    if (client === undefined) return refuse({ kind: 'credential_refused', credential: 'session', problem: 'expired' });
    if (this.#sockets.change(socket, { ...client, filters: [...client.filters, filter] })) return done;
    return refuse({ kind: 'limit_reached', limit: { name: 'relayAttachmentBytes', max: maxAttachmentBytes } });
  }

  #unsubscribe(socket: WebSocket, topic: string): Outcome<null> {
    const client = this.#parts.index.clientOf(socket);
    if (client === undefined || client.who === null) return notAuthenticated;
    this.#sockets.change(socket, { ...client, filters: client.filters.filter((filter) => filter !== topic) });
    return done;
  }

  /** As if the broker had brought the message; what it does is decided by the device's session. */
  async #publish(socket: WebSocket, { topic, payload }: PublishRequest): Promise<Outcome<null>> {
    const checked = checkPublish(this.#parts.index.clientOf(socket)?.who, topic);
    if (!checked.ok) return checked;
    const { device, action } = checked.value;
    const { productKey, deviceId, generation } = device;
    const text = typeof payload === 'string' ? payload : JSON.stringify(payload);
    const outcome = await callDevice(this.#env, deviceId, 'publish', 'once', (session) =>
      session.decide({ kind: 'relay_message_received', ...{ productKey, generation }, action, payload: text }),
    );
    if (!outcome.ok) return outcome;
    if (outcome.value.result !== 'rejected') return done;
    return refuse({ kind: 'invalid_input', path: 'payload', problem: outcome.value.reason });
  }

  #reply(socket: WebSocket, message: RelayReply): void {
    this.#sockets.send(socket, [JSON.stringify(message)]);
  }
}

const done: Outcome<null> = { ok: true, value: null };
