// The present state of devices for a socket that subscribes with `snapshot`. While a device is asked, its messages for that
// socket are held, so that none arrives before the older state. Owns no socket.
import { openDatabase } from '../../db/client.ts';
import { listDevices } from '../../db/devices/lists.ts';
import { actorOf } from '../../domain/access.ts';
import { refuse, type Outcome } from '../../domain/refusal.ts';
import { matchesFilter, topicOf } from '../../domain/topics.ts';
import { identityKey, type RelayIdentity, type SubscriptionTarget } from './rules.ts';
import { callDevice, resultOr } from '../calls/stubs.ts';

const pageSize = 50;
/** One invocation may call 1 000 objects. */
const maxDevices = 1_000;

export class RelaySnapshots {
  readonly #env: Env;
  readonly #held = new Map<WebSocket, Map<string, string[]>>();
  /** The last snapshot of each user or device that has one under way. */
  readonly #last = new Map<string, Promise<unknown>>();

  constructor(env: Env) {
    this.#env = env;
  }

  /** One snapshot at a time for a user or device: each may call as many objects as an invocation may. */
  async inTurn<T>(who: RelayIdentity, run: () => Promise<T>): Promise<T> {
    const key = identityKey(who);
    const last = (this.#last.get(key) ?? Promise.resolve()).then(run, run);
    this.#last.set(key, last);
    try {
      return await last;
    } finally {
      if (this.#last.get(key) === last) this.#last.delete(key);
    }
  }

  /** True if they were kept, to be sent behind the device's state. */
  hold(socket: WebSocket, deviceId: string, frames: readonly string[]): boolean {
    const held = this.#held.get(socket)?.get(deviceId);
    held?.push(...frames);
    return held !== undefined;
  }

  /** The own and shared devices whose state is to be sent: refused if there are too many. @throws Error if D1 does not answer */
  async devicesOf(target: SubscriptionTarget): Promise<Outcome<string[]>> {
    if (target.kind === 'device') return { ok: true, value: [target.device.deviceId] };
    const { productKey, who } = target;
    const { userId, deviceIds } = who;
    const filter = { userId, productKey, deviceIds };
    const page = { page: 1, size: maxDevices };
    const { total, rows } = await listDevices(openDatabase(this.#env.DB, 'first-unconstrained'), filter, page, 'begin');
    if (total > maxDevices)
      return refuse({ kind: 'limit_reached', limit: { name: 'relaySnapshotDevices', max: maxDevices } });
    return { ok: true, value: rows.map(({ device }) => device.deviceId) };
  }

  /** Page by page: `send` gets what matches the filter. A device that does not answer, or is gone, is left out. */
  async send(
    socket: WebSocket,
    filter: string,
    who: RelayIdentity,
    deviceIds: readonly string[],
    send: (frames: string[]) => void,
  ): Promise<void> {
    for (let at = 0; at < deviceIds.length; at += pageSize) {
      const held = new Map(deviceIds.slice(at, at + pageSize).map((deviceId) => [deviceId, [] as string[]]));
      this.#held.set(socket, held);
      try {
        const states = await Promise.all([...held.keys()].map((deviceId) => this.#ask(deviceId, filter, who)));
        const frames = states.flat();
        if (frames.length > 0) send(frames);
      } finally {
        this.#held.delete(socket);
      }
      const late = [...held.values()].flat();
      if (late.length > 0) send(late);
    }
  }

  async #ask(deviceId: string, filter: string, who: RelayIdentity): Promise<string[]> {
    const actor = who.kind === 'user' ? actorOf(who) : undefined;
    const called = callDevice(this.#env, deviceId, 'idempotent').present(actor);
    const outcome = await resultOr(undefined, called);
    if (outcome?.ok !== true) return [];
    const { productKey, messages } = outcome.value;
    return messages
      .map(({ action, body }) => ({ topic: topicOf({ productKey, deviceId }, action), payload: body }))
      .filter(({ topic }) => matchesFilter(filter, topic))
      .map((push) => JSON.stringify(push));
  }
}
