// Gathers what one device has to push to relay shards: what comes while a push is under way goes together when it has ended.
// Keeps their order. Never holds anything back for longer than `directLimits.gatherMs`.
import type { Subscription } from '../../domain/device/messages/subscriptions.ts';
import { directLimits } from '../../domain/direct/direct-limits.ts';
import { inBackground, waitable } from '../calls/background.ts';
import type { DeviceFleets } from './fleets.ts';
import type { StoredDevice } from './stored-device.ts';
import { pushToRelays, type RelayRun } from '../calls/push-to-relays.ts';
import { within } from '../calls/within.ts';

const tellWithinMs = 1_000;

type Delivery = { run: RelayRun; subscriptions: readonly Subscription[] };

export class RelayPushes {
  readonly #device: StoredDevice;
  readonly #fleets: DeviceFleets;
  #waiting: Delivery[] | undefined;
  #learned: Promise<void> = Promise.resolve();

  constructor(device: StoredDevice, fleets: DeviceFleets) {
    this.#device = device;
    this.#fleets = fleets;
  }

  /** Resolves when the shards have had it, or soon if they do not answer. */
  async tell(delivery: Delivery): Promise<void> {
    if (!this.#isWanted(delivery)) return;
    await within(tellWithinMs, this.#pushBeside([delivery]));
  }

  add(deliveries: readonly Delivery[]): void {
    const wanted = deliveries.filter((delivery) => this.#isWanted(delivery));
    if (wanted.length === 0) return;
    if (this.#waiting !== undefined) {
      this.#waiting.push(...wanted);
      return;
    }
    this.#waiting = [];
    inBackground(this.#device.ctx, 'push', this.#sendGathered(this.#pushBeside(wanted)));
  }

  #isWanted({ run, subscriptions }: Delivery): boolean {
    return subscriptions.length > 0 || this.#fleets.mayListen(run.readers ?? []);
  }

  async #sendGathered(first: Promise<void>): Promise<void> {
    for (let before = first; ;) {
      await Promise.race([before, scheduler.wait(directLimits.gatherMs)]);
      const gathered = this.#waiting ?? [];
      this.#waiting = gathered.length > 0 ? [] : undefined;
      if (gathered.length === 0) return;
      before = this.#pushBeside(gathered);
    }
  }

  #pushBeside(deliveries: readonly Delivery[]): Promise<void> {
    return waitable(this.#device.ctx, 'push', this.#push(deliveries));
  }

  /** In the order of the calls, although a call may have to ask first which shards listen. */
  async #push(deliveries: readonly Delivery[]): Promise<void> {
    const readers = new Set(deliveries.flatMap(({ run }) => run.readers ?? []));
    const learned = this.#learned.then(() => this.#fleets.learn([...readers]));
    this.#learned = learned;
    await learned;
    const addressed = deliveries.map((delivery) => ({
      ...delivery,
      fleets: this.#fleets.registrationsOf(delivery.run.readers ?? []),
    }));
    await pushToRelays(this.#device.env, addressed);
  }
}
