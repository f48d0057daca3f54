// Which relay shards want the messages of all devices of those who may follow this one. The device's state remembers it; where
// that knows nothing of a user, the user's directory is asked, once for all who wait. Never throws: without an answer what is
// known serves on.
import { readConfig } from '../../config.ts';
import type { Device } from '../../domain/device/decide.ts';
import type { DeviceEvent } from '../../domain/device/events.ts';
import { fleetsOf, unknownFleets, type FleetRegistration } from '../../domain/device/fleets.ts';
import { readersOf } from '../../domain/device/sharing.ts';
import { RefusedError } from '../../domain/refusal.ts';
import { describeError, log } from '../../log.ts';
import { callFleetDirectory, fleetDirectoryOf } from '../calls/stubs.ts';
import { within } from '../calls/within.ts';

/** A user may begin or cease to follow the device while the directory is asked. */
const maxTries = 2;
/** A directory that did not answer holds up no message for so long. */
const askAgainAfterMs = 5_000;

type Answered = Extract<DeviceEvent, { kind: 'fleet_answered' }>;

export class DeviceFleets {
  readonly #env: Env;
  readonly #deviceId: string;
  readonly #present: () => Device;
  readonly #report: (event: Answered) => void;
  readonly #asking = new Map<number, Promise<void>>();
  readonly #failedAtMs = new Map<number, number>();

  constructor(env: Env, deviceId: string, present: () => Device, report: (event: Answered) => void) {
    this.#env = env;
    this.#deviceId = deviceId;
    this.#present = present;
    this.#report = report;
  }

  /** The users who may follow the device. */
  readers(): readonly number[] {
    const present = this.#present();
    return typeof present === 'string' ? [] : readersOf(present);
  }

  /** False where it is known that none of the users has such a subscription. */
  mayListen(readers: readonly number[]): boolean {
    return this.known(readers).length > 0 || this.#unknown(readers).length > 0;
  }

  known(readers: readonly number[]): FleetRegistration[] {
    const present = this.#present();
    return typeof present === 'string' ? [] : fleetsOf(present, readers);
  }

  /** Returns when all is known that can be: sooner than whoever brought the message gives the device up. */
  async learn(readers: readonly number[]): Promise<void> {
    if (this.#unknown(readers).length === 0) return;
    await within(readConfig(this.#env).limits.objectAnswerMs / 2, this.#learn(readers));
  }

  async #learn(readers: readonly number[]): Promise<void> {
    for (let tries = 0; tries < maxTries; tries += 1) {
      const unknown = this.#unknown(readers);
      if (unknown.length === 0) return;
      await Promise.all(unknown.map((userId) => this.#askOnce(userId)));
    }
  }

  #unknown(readers: readonly number[]): number[] {
    const present = this.#present();
    if (typeof present === 'string') return [];
    const nowMs = Date.now();
    return unknownFleets(present, readers, nowMs).filter((userId) => {
      const sinceMs = nowMs - (this.#failedAtMs.get(userId) ?? -Infinity);
      return sinceMs < 0 || sinceMs >= askAgainAfterMs;
    });
  }

  #askOnce(userId: number): Promise<void> {
    const asking = this.#asking.get(userId) ?? this.#ask(userId).finally(() => this.#asking.delete(userId));
    this.#asking.set(userId, asking);
    return asking;
  }

  async #ask(userId: number): Promise<void> {
    const { fleetDirectories, objectAnswerMs } = readConfig(this.#env).limits;
    const name = fleetDirectoryOf(userId, this.#deviceId, fleetDirectories);
    const before = this.#present();
    const askedAtMs = Date.now();
    try {
      const asked = callFleetDirectory(this.#env, name, 'ask', (directory) => directory.ask(this.#deviceId));
      const answer = await within(objectAnswerMs / 2, asked);
      if (answer === undefined) {
        log('warn', 'fleet directory does not answer', { deviceId: this.#deviceId, directory: name });
        this.#failedAtMs.set(userId, Date.now());
        return;
      }
      // The directory may have been told meanwhile that the user does not follow the device.
      if (haveSameReaders(before, this.#present())) this.#report({ kind: 'fleet_answered', userId, askedAtMs, answer });
    } catch (error) {
      this.#failedAtMs.set(userId, Date.now());
      // A failed call is logged.
      if (!(error instanceof RefusedError)) {
        log('error', 'answer of the fleet directory not saved', { deviceId: this.#deviceId, ...describeError(error) });
      }
    }
  }
}

function haveSameReaders(before: Device, now: Device): boolean {
  if (typeof before === 'string' || typeof now === 'string') return false;
  return before.sharing === now.sharing && before.identity.ownerId === now.identity.ownerId;
}
