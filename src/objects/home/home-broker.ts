// A home: what looks like an MQTT broker to the Home Assistant of one API key, or to a broker that passes its messages on. Hears from
// devices as a relay shard does, and gives orders as any caller of the API does. Has no state worth losing, and decides no right: each
// device does.
import { DurableObject } from 'cloudflare:workers';
import { findApiKey } from '../../db/accounts/api-keys.ts';
import { openDatabase } from '../../db/client.ts';
import { homeLimits, readOrder, readOrderTopic, type HomeAction } from '../../domain/home/clients.ts';
import type { DirectMessage } from '../../domain/direct/session.ts';
import { refuse, wireErrorOf, type Outcome, type Refusal } from '../../domain/refusal.ts';
import { fullBucket, takeToken } from '../../domain/token-bucket.ts';
import { toIso } from '../../domain/time.ts';
import { parseFilter } from '../../domain/topics.ts';
import { log } from '../../log.ts';
import { recordTopic } from '../../protocol/relay.ts';
import { inBackground, orFailed } from '../calls/background.ts';
import type { RelayRun } from '../calls/push-to-relays.ts';
import { callDevice, confirmFleet, hasAnswer, listenToFleet } from '../calls/stubs.ts';
import { HomeClients } from './clients.ts';
import { HomeDevices, type HomeOwner } from './devices.ts';

/** Set by the Worker, which has checked the API key: a HomeOwner as JSON, encoded as a part of a URL. */
export const homeOwnerHeader = 'X-Home-Owner';

const ownerRow = 'owner';
const orderRate = { burst: homeLimits.ordersPerSecond, perSecond: homeLimits.ordersPerSecond };

export class HomeBroker extends DurableObject<Env> {
  readonly #name = this.ctx.id.name ?? '';
  #owner = this.ctx.storage.kv.get<HomeOwner>(ownerRow);
  readonly #orders = fullBucket(orderRate, Date.now());
  /** Grows with each end of the key: a login that was under way does not count. */
  #ends = 0;
  #listening: Promise<unknown> | undefined;
  readonly #clients: HomeClients = new HomeClients(this.ctx, this.env, {
    mayBegin: () => this.#hasKey(),
    began: () => this.#began(),
    check: () => inBackground(this.ctx, 'check a home', this.#check()),
    order: (message) => this.#order(message),
    sendRetained: async (filters, send) => {
      // What changes from then on is heard.
      await this.#listening;
      await this.#devices.sendRetained(filters, send);
    },
  });
  readonly #devices: HomeDevices = new HomeDevices(
    this.ctx,
    this.env,
    () => this.#owner,
    (topic, payload) => this.#clients.publish(topic, payload),
  );

  override fetch(request: Request): Response {
    const text = decodeURIComponent(request.headers.get(homeOwnerHeader) ?? '');
    if (text !== JSON.stringify(this.#owner)) {
      this.#owner = JSON.parse(text) as HomeOwner;
      this.ctx.storage.kv.put(ownerRow, this.#owner);
    }
    return this.#clients.accept(request);
  }

  override webSocketMessage(socket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    return this.#clients.receive(socket, data);
  }

  override webSocketClose(socket: WebSocket, code: number): void {
    this.#clients.closed(socket, code);
  }

  override webSocketError(socket: WebSocket, error: unknown): void {
    this.#clients.failed(socket, error);
  }

  /** As a relay shard answers: whether the user's directory may forget this home. */
  push(runs: RelayRun[]): { nobodyFor: string[]; noFleetOf: number[] } {
    const { userId = 0, productKey = null } = this.#owner?.actor ?? {};
    if (!this.#clients.hasAny()) return { nobodyFor: [], noFleetOf: [userId] };
    for (const { deviceId, topic } of runs) {
      const parsed = parseFilter(topic);
      if (productKey !== null && parsed?.device.productKey !== productKey) continue;
      this.#devices.noteChanged(deviceId, parsed?.rest === recordTopic);
    }
    return { nobodyFor: [], noFleetOf: [] };
  }

  /** A command of the device ended, or its witness saw a change. */
  note(deviceId: string): void {
    if (this.#clients.hasAny()) this.#devices.noteChanged(deviceId, false);
  }

  /** The API key was deleted, or its account disabled. */
  end(): void {
    this.#ends += 1;
    this.#clients.endAll();
  }

  async #hasKey(): Promise<boolean> {
    const endsBefore = this.#ends;
    const { keyId = null } = this.#owner?.actor ?? {};
    const database = openDatabase(this.env.DB);
    const row = keyId === null ? undefined : await findApiKey(database, keyId);
    return row !== undefined && this.#ends === endsBefore;
  }

  #began(): void {
    const isHeard = this.#clients.hasAny();
    if (this.#listening !== undefined && isHeard) return;
    // What changed while nobody listened was not heard.
    if (!isHeard) this.#devices.forgetAll();
    const { userId } = this.#owner?.actor ?? {};
    if (userId === undefined) return;
    this.#listening = hasAnswer(listenToFleet(this.env, userId, this.#name));
    inBackground(this.ctx, 'listen to devices', this.#listening);
  }

  /** What a call of `end` or of the directory missed. */
  async #check(): Promise<void> {
    const hasKey = await orFailed('API key of a home not checked', { home: this.#name }, this.#hasKey());
    if (hasKey === false) this.end();
    else if (this.#owner !== undefined) await confirmFleet(this.env, this.#owner.actor.userId, this.#name);
  }

  /** An order that was refused shows in the device's outcome: MQTT 3.1.1 has no other way to say it. */
  async #order({ action, topic, payload, isRedelivery }: DirectMessage<HomeAction>): Promise<number> {
    const meant = readOrderTopic(topic);
    if (meant === undefined || action === 'birth') return 0;
    const { deviceId } = meant;
    const time = toIso(Date.now());
    const about = { home: this.#name, deviceId };
    const given = this.#give(deviceId, action, payload, isRedelivery);
    const answer = await orFailed('order of a home failed', about, given);
    const outcome = answer === 'failed' ? refuse({ kind: 'internal_error' }) : answer;
    if (outcome.ok) {
      this.#devices.noteChanged(deviceId, false);
      return 0;
    }
    const { refusal } = outcome;
    const { message, detail } = wireErrorOf(refusal);
    log('info', 'order of a home refused', { ...about, ...refusal });
    const reason = detail === undefined ? message : `${message}: ${detail}`;
    const command = `${action} ${payload ?? ''}`.slice(0, 64);
    this.#devices.noteRefused(deviceId, { state: 'refused', reason, command, time });
    return pubackCodeOf(refusal);
  }

  async #give(
    deviceId: string,
    action: Exclude<HomeAction, 'birth'>,
    payload: string | undefined,
    isRedelivery: boolean,
  ): Promise<Outcome<unknown>> {
    if (!takeToken(this.#orders, orderRate, Date.now())) {
      return refuse({ kind: 'rate_limited', limit: 'homeOrders', retryAfterSeconds: 1 });
    }
    // Home Assistant sends an unacknowledged order again when it is back, however late that is.
    if (isRedelivery) {
      return refuse({ kind: 'invalid_input', path: action, problem: 'comes again, and may have been carried out' });
    }
    const read = readOrder(action, payload);
    if (!read.ok) return read;
    const { value: order } = read;
    if (this.#owner === undefined) return refuse({ kind: 'not_found', what: 'device' });
    const { actor } = this.#owner;
    const options = { ttlSeconds: undefined, waitSeconds: undefined, idempotencyKey: undefined, via: 'home' as const };
    const device = callDevice(this.env, deviceId, 'once');
    if ('params' in order) return device.command(actor, { ...options, ...order });
    const press = (await this.#devices.controlModeOf(deviceId)) === 'toggle' ? 'toggle' : 'pulse';
    return device.ensure(actor, { ...options, params: { action: press }, ...order });
  }
}

/** MQTT5 3.4.2.1 */
function pubackCodeOf({ kind }: Refusal): number {
  if (kind === 'rate_limited') return 0x97;
  if (['not_owner', 'role_lacks_right', 'key_lacks_right', 'not_found', 'device_disabled'].includes(kind)) return 0x87;
  return kind === 'invalid_input' ? 0x99 : 0x83;
}
