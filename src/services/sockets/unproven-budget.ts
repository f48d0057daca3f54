// How many connections may wake an object of a device before anybody has shown a password: by device, by network and in all.
// In memory, by isolate. It must not decide what happens to a connection beyond it.
import { spend, unspent, type Spent } from '../../domain/token-bucket.ts';
import { rememberNewest } from '../../domain/newest.ts';

type PerMinute = { device: number; network: number; all: number };

const maxRemembered = 10_000;

export class UnprovenBudget {
  readonly #perMinute: PerMinute;
  readonly #byDevice = new Map<string, Spent>();
  readonly #byNetwork = new Map<string, Spent>();
  #byAll: Spent = unspent;

  constructor(perMinute: PerMinute) {
    this.#perMinute = perMinute;
  }

  take(deviceId: string, network: string, nowMs: number): boolean {
    const { device, network: ofNetwork, all } = this.#perMinute;
    const byDevice = spend(this.#byDevice.get(deviceId) ?? unspent, device, nowMs);
    const byNetwork = spend(this.#byNetwork.get(network) ?? unspent, ofNetwork, nowMs);
    const byAll = spend(this.#byAll, all, nowMs);
    if (byDevice === undefined || byNetwork === undefined || byAll === undefined) return false;
    rememberNewest(this.#byDevice, deviceId, byDevice, maxRemembered);
    rememberNewest(this.#byNetwork, network, byNetwork, maxRemembered);
    this.#byAll = byAll;
    return true;
  }
}
