// How often a password may be tried, on a driven clock: attackers with one address and with many, and the owner meanwhile.
import { describe, expect, it } from 'vitest';
import {
  attemptOpensAt,
  countFailedAttempt,
  type FailureCount,
  type LoginLimits,
  type ThrottleKeyName,
} from '../../../src/domain/login-throttle.ts';
import { limitsOf } from '../limits-of.ts';

const defaults = limitsOf('');
const secondMs = 1_000;
const dayMs = 24 * 3_600_000;
const none: FailureCount = { failures: 0, lastFailedAtMs: 0 };

/** One account whose counts are kept in memory. */
class Account {
  nowMs = 0;
  readonly #limits: LoginLimits;
  readonly #counts = new Map<string, FailureCount & { expiresAtMs: number }>();

  constructor(limits: LoginLimits = defaults) {
    this.#limits = limits;
  }

  /** When an attempt from there may be made. */
  opensAt(client: string): number {
    const counts = { own: this.#read('own', client), free: this.#read('free'), common: this.#read('common') };
    return attemptOpensAt(counts, client.startsWith('device'), this.#limits);
  }

  /** A wrong password: whether the client learns that it is wrong. */
  async fail(client: string): Promise<boolean> {
    if (this.opensAt(client) > this.nowMs) return false;
    const count = (name: ThrottleKeyName) => Promise.resolve(this.#count(name, client));
    return (await countFailedAttempt(count, client.startsWith('device'), this.#limits, this.nowMs)) <= this.nowMs;
  }

  #read(name: ThrottleKeyName, client = ''): FailureCount {
    const found = this.#counts.get(name + (name === 'own' ? client : ''));
    return found === undefined || found.expiresAtMs <= this.nowMs ? none : found;
  }

  #count(name: ThrottleKeyName, client: string): FailureCount {
    const before = this.#read(name, client);
    const key = name + (name === 'own' ? client : '');
    const known = before === none ? undefined : this.#counts.get(key);
    const expiresAtMs = name === 'free' && known !== undefined ? known.expiresAtMs : this.nowMs + dayMs;
    this.#counts.set(key, { failures: before.failures + 1, lastFailedAtMs: this.nowMs, expiresAtMs });
    return before;
  }
}

/** Guesses of `addresses` addresses that try as fast as they are let, each second of `days`, by day. */
async function guess(account: Account, addresses: number, days: number): Promise<number[]> {
  const perDay = Array.from({ length: days }, () => 0);
  let next = 0;
  for (; account.nowMs < days * dayMs; account.nowMs += secondMs) {
    // Every address that has not been tried in this second, until one is refused: then the others are, too.
    for (let tried = 0; tried < addresses; tried++) {
      const client = `address ${next % addresses}`;
      if (!(await account.fail(client))) {
        if (addresses > 1) next += 1;
        break;
      }
      perDay[Math.floor(account.nowMs / dayMs)]! += 1;
      next += 1;
    }
  }
  return perDay;
}

/** Five wrong passwords from each of so many addresses. */
async function failFrom(account: Account, addresses: number): Promise<void> {
  for (let address = 0; address < addresses; address++) {
    for (let count = 0; count < 5; count++) await account.fail(`address ${address}`);
  }
}

describe('attempts from one address', () => {
  it('are free five times, then wait from one second up to fifteen minutes', async () => {
    const account = new Account();
    const waits = [];
    for (let failures = 0; failures < 20; failures++) {
      expect(await account.fail('address 1')).toBe(true);
      const waitMs = Math.max(0, account.opensAt('address 1') - account.nowMs);
      waits.push(waitMs / secondMs);
      account.nowMs += waitMs;
    }
    expect(waits).toEqual([0, 0, 0, 0, 1, 5, 5, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900, 900, 900, 900]);
  });

  it('are some hundred guesses a day', async () => {
    const [first, second] = await guess(new Account(), 1, 2);
    expect(first).toBeLessThanOrEqual(115);
    expect(second).toBeLessThanOrEqual(97);
  });
});

describe('attempts from ten thousand addresses', () => {
  it('never make more than 18 280 guesses a day', async () => {
    const [first, second] = await guess(new Account(), 10_000, 2);
    expect(first).toBeGreaterThan(17_280);
    expect(first).toBeLessThanOrEqual(18_281);
    expect(second).toBeLessThanOrEqual(18_280);
  });

  it('of 190, do not make the owner wait at a new address, nor after a few wrong passwords there', async () => {
    const account = new Account();
    await failFrom(account, 190);
    // All of them go on.
    for (let second = 0; second < 3_600; second++) {
      account.nowMs += secondMs;
      await account.fail(`address ${second % 190}`);
      if (second % 600 !== 0) continue;
      const owner = `address of the owner ${second}`;
      for (let typo = 0; typo < 5; typo++) {
        expect(account.opensAt(owner)).toBeLessThanOrEqual(account.nowMs);
        expect(await account.fail(owner)).toBe(true);
      }
      // From the sixth one on: a few seconds.
      expect(account.opensAt(owner) - account.nowMs).toBeLessThanOrEqual(5 * secondMs);
    }
  });
});
