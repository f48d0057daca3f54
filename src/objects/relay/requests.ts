// What the clients of a relay shard ask for (contract 6): each frame is read, answered, and takes effect in the order in which
// it was sent. It must not push.
import { isDatabaseAway } from '../../db/client.ts';
import { parseJson } from '../../domain/json.ts';
import { RefusedError, refuse, wireErrorOf, type Outcome } from '../../domain/refusal.ts';
import { parseMessagingName } from '../../domain/topics.ts';
import { describeError } from '../../log.ts';
import { statusByError, type ErrorMessage } from '../../protocol/error-status.ts';
import { relayRequestSchema, type RelayReply, type RelayRequest } from '../../protocol/relay.ts';
import type { AuthRequest, RelayAuthentication } from './authentication.ts';
import { checkPublish, checkSubscription, hideForeign, notAuthenticated, type SubscriptionTarget } from './rules.ts';
import { maxAttachmentBytes, type Shard } from './shard.ts';
import type { RelaySnapshots } from './snapshots.ts';
import { callDevice } from '../calls/stubs.ts';

const maxFailedAuths = 3;
/** So many devices in a snapshot count as one frame more. */
const devicesPerToken = 50;
const relayActions = ['auth', 'subscribe', 'unsubscribe', 'publish'] as const;

type TopicRequest = Extract<RelayRequest, { topic: string }>;
type PublishRequest = Extract<RelayRequest, { action: 'publish' }>;

export class RelayRequests {
  readonly #env: Env;
  readonly #shard: Shard;
  readonly #authentication: RelayAuthentication;
  readonly #snapshots: RelaySnapshots;
  /** Frames of one socket are handled one after the other: `subscribe` may follow `auth` without waiting. */
  readonly #queues = new Map<WebSocket, Promise<void>>();

  constructor(env: Env, shard: Shard, authentication: RelayAuthentication, snapshots: RelaySnapshots) {
    this.#env = env;
    this.#shard = shard;
    this.#authentication = authentication;
    this.#snapshots = snapshots;
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
    const client = this.#shard.clientOf(socket);
    // Ended by an earlier frame.
    if (client === undefined) return;
    const body = typeof data === 'string' ? parseJson(data) : undefined;
    const request = relayRequestSchema.safeParse(body);
    const isTooFast = !this.#shard.takeRequest(client);
    if (isTooFast || !request.success) {
      const named = typeof body === 'object' && body !== null && 'action' in body ? body.action : undefined;
      const action = relayActions.find((name) => name === named) ?? 'error';
      const message = isTooFast ? 'too_many_requests' : 'invalid_request';
      this.#shard.log('info', 'relay frame not handled', socket, { action, message });
      this.#reply(socket, { action, code: 400, message });
      return;
    }
    const { action } = request.data;
    try {
      await this.#answer(socket, request.data);
    } catch (error) {
      // Nothing is in effect; the client may try again.
      const reason = error instanceof RefusedError ? error.refusal : describeError(error);
      this.#shard.log('warn', 'relay request failed', socket, { action, ...reason });
      const isAway = isDatabaseAway(error);
      const refusal = wireErrorOf({ kind: isAway ? 'storage_unavailable' : 'internal_error' });
      this.#reply(socket, { action, code: relayCodeOf(refusal.message), ...refusal });
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
    this.#shard.log('info', 'relay request refused', socket, { action, topic, ...outcome.refusal });
    const { message, detail } = wireErrorOf(
      action === 'subscribe' ? hideForeign(outcome.refusal, topic) : outcome.refusal,
    );
    const text = detail === undefined ? message : `${message}: ${detail}`;
    this.#reply(socket, { action, topic, code: relayCodeOf(message), message: text });
  }

  #use(socket: WebSocket, request: TopicRequest): Outcome<null> | Promise<Outcome<null>> {
    if (request.action === 'publish') return this.#publish(socket, request);
    if (request.action === 'unsubscribe') return this.#unsubscribe(socket, request.topic);
    const { topic, snapshot = false } = request;
    const who = this.#shard.clientOf(socket)?.who ?? null;
    const subscribe = () => this.#subscribe(socket, topic, snapshot);
    return snapshot && who !== null ? this.#snapshots.inTurn(who, subscribe) : subscribe();
  }

  async #authenticate(socket: WebSocket, request: AuthRequest): Promise<void> {
    const former = this.#shard.clientOf(socket);
    if (former === undefined) return;
    const outcome = await this.#authentication.authenticate(request, former.address);
    const client = this.#shard.clientOf(socket);
    if (client === undefined) return;
    if (!outcome.ok) {
      const failedAuths = client.failedAuths + 1;
      this.#shard.change(socket, { ...client, failedAuths });
      const deviceId = 'username' in request ? parseMessagingName(request.username)?.deviceId : undefined;
      this.#shard.log('info', 'relay request refused', socket, { action: 'auth', deviceId, ...outcome.refusal });
      // Always 401, whatever HTTP would answer (decision: relay).
      this.#reply(socket, { action: 'auth', code: 401, message: wireErrorOf(outcome.refusal).message });
      if (failedAuths >= maxFailedAuths) this.#shard.end(socket, 1008, 'too many failed authentications');
      return;
    }
    await this.#shard.signIn(socket, client, outcome.value);
    this.#reply(socket, { action: 'auth', code: 200, message: 'success' });
  }

  async #subscribe(socket: WebSocket, filter: string, wantsSnapshot: boolean): Promise<Outcome<null>> {
    const client = this.#shard.clientOf(socket);
    const checked = checkSubscription(client, filter);
    if (!checked.ok || client === undefined) return checked.ok ? notAuthenticated : checked;
    const { target, isNew } = checked.value;
    const devices = wantsSnapshot ? await this.#snapshots.devicesOf(target) : undefined;
    if (devices?.ok === false) return devices;
    const tokens = Math.ceil((devices?.value.length ?? 0) / devicesPerToken);
    if (tokens > 0 && !this.#shard.takeRequest(client, tokens)) return tooFast;
    const added = isNew ? await this.#register(socket, filter, target) : done;
    if (!added.ok || devices === undefined) return added;
    await this.#snapshots.send(socket, filter, target.who, devices.value, (frames) => {
      this.#shard.outbox.answer(socket, frames);
    });
    return done;
  }

  #register(socket: WebSocket, filter: string, target: SubscriptionTarget): Outcome<null> | Promise<Outcome<null>> {
    const add = () => this.#addFilter(socket, filter);
    if (target.kind === 'fleet') {
      // The user's devices know of this shard while a socket with such a filter is here.
      if (this.#shard.subscribers.hasFleetOf(target.who.userId)) return add();
      return this.#authentication.registerFleet(target.who.userId, add);
    }
    // The shard is registered with the device since its socket authenticated.
    if (target.who.kind === 'device') return add();
    return this.#authentication.registerForUser(target.who, target.device, filter, add);
  }

  #addFilter(socket: WebSocket, filter: string): Outcome<null> {
    const client = this.#shard.clientOf(socket);
    if (client === undefined) return refuse({ kind: 'credential_refused', credential: 'session', problem: 'expired' });
    if (this.#shard.change(socket, { ...client, filters: [...client.filters, filter] })) return done;
    return refuse({ kind: 'limit_reached', limit: { name: 'relayAttachmentBytes', max: maxAttachmentBytes } });
  }

  #unsubscribe(socket: WebSocket, topic: string): Outcome<null> {
    const client = this.#shard.clientOf(socket);
    if (client === undefined || client.who === null) return notAuthenticated;
    this.#shard.change(socket, { ...client, filters: client.filters.filter((filter) => filter !== topic) });
    return done;
  }

  /** As if the broker had brought the message: the device's session decides what it does. */
  async #publish(socket: WebSocket, { topic, payload }: PublishRequest): Promise<Outcome<null>> {
    const checked = checkPublish(this.#shard.clientOf(socket)?.who, topic);
    if (!checked.ok) return checked;
    const { device, action } = checked.value;
    const { productKey, deviceId, generation } = device;
    const text = typeof payload === 'string' ? payload : JSON.stringify(payload);
    const message = { productKey, generation, action, payload: text };
    const session = callDevice(this.#env, deviceId, 'once');
    const outcome = await session.decide({ kind: 'relay_message_received', ...message });
    if (!outcome.ok) return outcome;
    if (outcome.value.result !== 'rejected') return done;
    return refuse({ kind: 'invalid_input', path: 'payload', problem: outcome.value.reason });
  }

  #reply(socket: WebSocket, message: RelayReply): void {
    this.#shard.outbox.answer(socket, [JSON.stringify(message)]);
  }
}

const done: Outcome<null> = { ok: true, value: null };
const tooFast = refuse({ kind: 'rate_limited', limit: 'relayFramesPerSecond', retryAfterSeconds: 1 });

/** Contract 7, as over HTTP. Frames have no code of their own for too many requests. */
function relayCodeOf(message: ErrorMessage): number {
  return message === 'too_many_requests' ? 400 : statusByError[message];
}
