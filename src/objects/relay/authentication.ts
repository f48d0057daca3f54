// Asks devices' sessions whether relay clients may have what they ask for, and registers this shard with them. Between the
// session's recording the shard and the shard's recording the socket, a push would find no subscriber here and have the
// registration removed again: therefore registrations under way count as subscribers.
import { readConfig } from '../../config.ts';
import { verifyAccessToken } from '../../crypto/tokens.ts';
import { refuse, RefusedError, type Outcome } from '../../domain/refusal.ts';
import { parseMessagingName, type DeviceIdentity } from '../../domain/topics.ts';
import type { RelayRequest } from '../../protocol/relay.ts';
import { guardLogin } from '../../pacing/login-guard.ts';
import { RelayKeys } from './keys.ts';
import { actorOf, type RelayIdentity, type RelayUser } from './rules.ts';
import { callDevice, callFleetDirectory, fleetDirectoryNames } from '../calls/stubs.ts';

export type AuthRequest = Extract<RelayRequest, { action: 'auth' }>;

type Registration = {
  deviceId: string;
  /** The credentials that are valid since others ended meanwhile. */
  liveGenerations: readonly number[] | undefined;
  /** Users who lost their right to the device meanwhile. */
  endedUserIds: number[];
};

export class RelayAuthentication {
  readonly #env: Env;
  readonly #shard: string;
  readonly keys: RelayKeys;
  /** Registrations under way. */
  readonly #registrations = new Set<Registration>();

  /** Users, once for each registration under way. */
  readonly #fleetRegistrations: number[] = [];
  readonly #fleetsKeptUntilMs = new Map<number, number>();

  constructor(env: Env, shard: string) {
    this.#env = env;
    this.#shard = shard;
    this.keys = new RelayKeys(env);
  }

  isRegistering(deviceId: string): boolean {
    return this.#registrationsOf(deviceId).length > 0;
  }

  onRevoked(deviceId: string, generations: readonly number[]): void {
    for (const registration of this.#registrationsOf(deviceId)) registration.liveGenerations = generations;
  }

  onUserEnded(deviceId: string, userId: number): void {
    for (const registration of this.#registrationsOf(deviceId)) registration.endedUserIds.push(userId);
  }

  /** @throws RefusedError `object_failed` */
  async authenticate(request: AuthRequest, clientAddress: string): Promise<Outcome<RelayIdentity>> {
    if ('username' in request) return this.#checkDevice(request, clientAddress);
    if ('apiKey' in request) return this.keys.check(request, clientAddress);
    const access = await verifyAccessToken(readConfig(this.#env), request.token);
    if (!access.ok) return access;
    const { userId, expiresAtMs } = access.value;
    return { ok: true, value: { kind: 'user', userId, expiresAtMs } };
  }

  /** False where the session cannot be asked. */
  async isRevoked({ productKey, deviceId, generation }: Extract<RelayIdentity, { kind: 'device' }>): Promise<boolean> {
    try {
      return await callDevice(this.#env, deviceId, 'hasRevoked', 'idempotent', (device) =>
        device.hasRevoked({ productKey, generation }),
      );
    } catch (error) {
      // The call has logged it.
      if (error instanceof RefusedError) return false;
      throw error;
    }
  }

  /**
   * Registers this shard for a user's subscription; `subscribe` runs while the registration still counts.
   * @throws RefusedError `object_failed`
   */
  registerForUser<T>(
    user: RelayUser,
    { productKey, deviceId }: DeviceIdentity,
    filter: string,
    subscribe: () => Outcome<T>,
  ): Promise<Outcome<T>> {
    return this.#register(deviceId, async ({ endedUserIds }) => {
      const outcome = await callDevice(this.#env, deviceId, 'subscribe', 'idempotent', (device) =>
        device.subscribe(actorOf(user), productKey, this.#shard, filter),
      );
      // The right ended before the answer was here: there was no subscription yet to be ended.
      if (endedUserIds.includes(user.userId)) return refuse({ kind: 'not_owner', of: 'device', id: deviceId });
      return outcome.ok ? subscribe() : outcome;
    });
  }

  /** Also for a while without a socket: one that subscribes again and again is not to call all devices each time. */
  holdsFleet(userId: number): boolean {
    return this.#fleetRegistrations.includes(userId) || this.#isFleetKept(userId);
  }

  /**
   * Registers this shard for everything that is the user's; resolves when all devices know of it.
   * @throws RefusedError `object_failed`
   */
  async registerFleet<T>(userId: number, subscribe: () => Outcome<T>): Promise<Outcome<T>> {
    // No push was answered with "no such socket" since.
    if (this.#isFleetKept(userId)) return subscribe();
    this.#fleetRegistrations.push(userId);
    try {
      const outcome = await this.#listen(userId, false);
      if (!outcome.ok) return outcome;
      this.#keepFleet(userId);
      return subscribe();
    } finally {
      this.#fleetRegistrations.splice(this.#fleetRegistrations.indexOf(userId), 1);
    }
  }

  /** The shard has such sockets of the user: the directory may have been lost, or made by an older version. */
  async confirmFleet(userId: number): Promise<void> {
    try {
      await this.#listen(userId, true);
    } catch (error) {
      // The call has logged it.
      if (!(error instanceof RefusedError)) throw error;
    }
  }

  async #listen(userId: number, isRepeated: boolean): Promise<Outcome<null>> {
    const names = fleetDirectoryNames(userId, readConfig(this.#env).limits.fleetDirectories);
    const outcomes = await Promise.all(
      names.map((name) =>
        callFleetDirectory(this.#env, name, 'listen', (directory) => directory.listen(userId, this.#shard, isRepeated)),
      ),
    );
    return outcomes.find(({ ok }) => !ok) ?? { ok: true, value: null };
  }

  #isFleetKept(userId: number): boolean {
    return (this.#fleetsKeptUntilMs.get(userId) ?? 0) > Date.now();
  }

  #keepFleet(userId: number): void {
    const nowMs = Date.now();
    for (const [other, untilMs] of this.#fleetsKeptUntilMs) {
      // The oldest ones are first.
      if (untilMs > nowMs) break;
      this.#fleetsKeptUntilMs.delete(other);
    }
    this.#fleetsKeptUntilMs.delete(userId);
    this.#fleetsKeptUntilMs.set(userId, nowMs + readConfig(this.#env).limits.fleetKeptSeconds * 1000);
  }

  #checkDevice(
    { username, password }: Extract<AuthRequest, { username: string }>,
    network: string,
  ): Promise<Outcome<RelayIdentity>> {
    const named = parseMessagingName(username);
    if (named === undefined) return Promise.resolve(refuse({ kind: 'not_found', what: 'device' }));
    return guardLogin(readConfig(this.#env), { device: named, password, network }, (passwordDigest) =>
      this.#registerForDevice(named, passwordDigest),
    );
  }

  #registerForDevice(
    { productKey, deviceId }: DeviceIdentity,
    passwordDigest: string,
  ): Promise<Outcome<RelayIdentity>> {
    return this.#register(deviceId, async (registration) => {
      const outcome = await callDevice(this.#env, deviceId, 'authenticate', 'idempotent', (device) =>
        device.authenticate({ productKey, passwordDigest, relayShard: this.#shard }),
      );
      if (!outcome.ok) return outcome;
      // Revoked before the answer was here: there was no socket yet to be closed.
      if (registration.liveGenerations?.includes(outcome.value.generation) === false) {
        return refuse({ kind: 'credential_refused', credential: 'messaging_password', problem: 'revoked' });
      }
      return { ok: true, value: { kind: 'device', ...outcome.value } };
    });
  }

  async #register<T>(deviceId: string, run: (registration: Registration) => Promise<T>): Promise<T> {
    const registration: Registration = { deviceId, liveGenerations: undefined, endedUserIds: [] };
    this.#registrations.add(registration);
    try {
      return await run(registration);
    } finally {
      this.#registrations.delete(registration);
    }
  }

  #registrationsOf(deviceId: string): Registration[] {
    return [...this.#registrations].filter((registration) => registration.deviceId === deviceId);
  }
}
