// Which relay shards want the messages of all devices of the users who may follow this device, and which webhooks these users
// have. The directory of each user is asked once per lease, and only if there is something to tell. The answers outlive a sleep of
// the object: a row a lease, and no call a report. Never throws: without an answer the last answer counts.
import { readConfig } from '../../config.ts';
import type { Webhooks } from '../../domain/device/core/outgoing.ts';
import { defaultNoticeRules, type NoticeRules } from '../../domain/notices.ts';
import { secondMs } from '../../domain/time.ts';
import type { WebhookFilter } from '../../domain/webhooks/webhooks.ts';
import { log } from '../../log.ts';
import type { FleetAnswer, FleetListener, FleetRegistration } from '../calls/push-to-relays.ts';
import { callFleetDirectory, isHome, resultOr } from '../calls/stubs.ts';
import { within } from '../calls/within.ts';
import type { StoredDevice } from './stored-device.ts';

/** Sooner than the caller who brought the message gives the device up. */
const directoryAnswerMs = 1_500;
/** A directory that did not answer holds up no message for so long. */
const askAgainAfterMs = 5_000;

const rowName = 'fleetLeases';

type Lease = {
  listeners: readonly FleetListener[];
  /** Absent: the directory has never answered. They hold beyond the lease, until the directory ends it for them. */
  webhooks?: readonly WebhookFilter[];
  /** Absent: the default rules. They hold as long as the webhooks. */
  rules?: NoticeRules;
  areWebhooksOld?: true;
  fromMs: number;
  forMs: number;
};

export class DeviceFleets {
  readonly #device: StoredDevice;
  #loaded: Map<number, Lease> | undefined;
  readonly #asking = new Map<number, Promise<void>>();

  constructor(device: StoredDevice) {
    this.#device = device;
  }

  mayListen(readers: readonly number[]): boolean {
    return this.registrationsOf(readers).length > 0 || readers.some((userId) => !this.#isLeased(userId));
  }

  registrationsOf(readers: readonly number[]): FleetRegistration[] {
    return readers.flatMap((userId) =>
      (this.#leases.get(userId)?.listeners ?? []).map((listener) => ({ userId, ...listener })),
    );
  }

  homesOf(readers: readonly number[]): string[] {
    return this.registrationsOf(readers).flatMap(({ shard }) => (isHome(shard) ? [shard] : []));
  }

  webhooksOf(readers: readonly number[]): Webhooks {
    const list = readers.flatMap((userId) => {
      const { webhooks = [], areWebhooksOld: isOld = false } = this.#leases.get(userId) ?? {};
      return webhooks.map((webhook) => ({ userId, isOld, ...webhook }));
    });
    const isComplete = readers.every((userId) => this.#hasWebhooks(userId));
    const answers = [...this.#leases].filter(([, { webhooks }]) => webhooks !== undefined);
    const rules = new Map(answers.map(([userId, { rules: own = defaultNoticeRules }]) => [userId, own]));
    return { isComplete, list, rules, hasHome: this.homesOf(readers).length > 0 };
  }

  async learn(readers: readonly number[]): Promise<void> {
    const unknown = readers.filter((userId) => !this.#isLeased(userId));
    if (unknown.length > 0) await Promise.all(unknown.map((userId) => this.#ask(userId)));
  }

  async learnWebhooks(readers: readonly number[]): Promise<void> {
    await Promise.all(readers.filter((userId) => !this.#hasWebhooks(userId)).map((userId) => this.#ask(userId)));
  }

  /** The user's directory has another answer now. An answer that is under way does not count. */
  endLease(userId: number, areWebhooksOld: boolean): void {
    this.#asking.delete(userId);
    const lease = this.#leases.get(userId);
    if (lease === undefined) return;
    this.#save(userId, { ...lease, forMs: 0, ...(areWebhooksOld && { areWebhooksOld }) });
  }

  #ask(userId: number): Promise<void> {
    const asking = this.#asking.get(userId);
    if (asking !== undefined) return asking;
    const fromMs = Date.now();
    const request = this.#request(userId).then((answer) => {
      // The lease ended before the answer came.
      if (this.#asking.get(userId) !== request) return;
      this.#asking.delete(userId);
      if (answer === undefined) {
        const former = this.#leases.get(userId) ?? { listeners: [] };
        this.#leases.set(userId, { ...former, fromMs: Date.now(), forMs: askAgainAfterMs });
        return;
      }
      const forMs = readConfig(this.#device.env).limits.fleetLeaseSeconds * secondMs;
      this.#save(userId, { ...answer, fromMs, forMs });
    });
    this.#asking.set(userId, request);
    return request;
  }

  async #request(userId: number): Promise<FleetAnswer | undefined> {
    const called = callFleetDirectory(this.#device.env, userId, 'idempotent').ask(this.#device.deviceId);
    const answer = await resultOr(null, within(directoryAnswerMs, called));
    if (answer === undefined) log('warn', 'fleet directory does not answer', { ...this.#device.about, userId });
    return answer ?? undefined;
  }

  /** Only for a device that exists: any other has no readers, and no table. */
  get #leases(): Map<number, Lease> {
    if (this.#loaded !== undefined) return this.#loaded;
    const row = this.#device.storage.readRow(rowName) as { leases: [number, Lease][] } | undefined;
    return (this.#loaded = new Map(row?.leases));
  }

  #save(userId: number, lease: Lease): void {
    this.#leases.set(userId, lease);
    if (this.#device.storage.hasSlices())
      this.#device.storage.writeSlices({ [rowName]: { leases: [...this.#leases] } });
  }

  #hasWebhooks(userId: number): boolean {
    const { webhooks, areWebhooksOld = false } = this.#leases.get(userId) ?? {};
    return webhooks !== undefined && !areWebhooksOld;
  }

  #isLeased(userId: number): boolean {
    const { fromMs, forMs } = this.#leases.get(userId) ?? { fromMs: 0, forMs: 0 };
    const ageMs = Date.now() - fromMs;
    // A negative age: the clock was set back.
    return ageMs >= 0 && ageMs < forMs;
  }
}
