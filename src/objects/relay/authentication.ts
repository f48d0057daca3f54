// Asks devices' sessions whether relay clients may have what they ask for, and registers this shard with them. Between the
// session's recording the shard and the shard's recording the socket, a push would find no subscriber here and have the
// registration removed again: therefore registrations under way count as subscribers.
import { readConfig } from '../../config.ts';
import { verifyAccessToken } from '../../crypto/tokens.ts';
import { refuse, RefusedError, type Outcome } from '../../domain/refusal.ts';
import { parseMessagingName, type DeviceIdentity } from '../../domain/topics.ts';
import type { RelayRequest } from '../../protocol/relay.ts';
import { digestIfCertified } from '../../crypto/messaging-password.ts';
import { RelayKeys } from './keys.ts';
import { actorOf, type RelayIdentity, type RelayUser } from './rules.ts';
import { callDevice, callFleetDirectory, type RemoteFleets } from '../calls/stubs.ts';

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
    if ('username' in request) return this.#checkDevice(request);
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
        device.decide({ kind: 'subscription_requested', actor: actorOf(user), productKey, shard: this.#shard, filter }),
      );
      // The right ended before the answer was here: there was no subscription yet to be ended.
      if (endedUserIds.includes(user.userId)) return refuse({ kind: 'not_owner', of: 'device', id: deviceId });
      return outcome.ok ? subscribe() : outcome;
    });
  }

  isRegisteringFleet(userId: number): boolean {
    return this.#fleetRegistrations.includes(userId);
  }

  /**
   * Registers this shard for everything that is the user's. When it resolves, no device relies on an older answer.
   * @throws RefusedError `object_failed`
   */
  async registerFleet<T>(userId: number, subscribe: () => Outcome<T>): Promise<Outcome<T>> {
    this.#fleetRegistrations.push(userId);
    try {
      await this.#listenToFleet(userId);
      return subscribe();
    } finally {
      this.#fleetRegistrations.splice(this.#fleetRegistrations.indexOf(userId), 1);
    }
  }

  /** For sockets of the user that are here: the directory may have been restored without this shard. */
  async confirmFleet(userId: number): Promise<void> {
    try {
      const confirm = (directory: RemoteFleets) => directory.confirm(userId, this.#shard);
      if (!(await callFleetDirectory(this.#env, userId, 'confirm', confirm))) await this.#listenToFleet(userId);
    } catch (error) {
      // The call has logged it.
      if (!(error instanceof RefusedError)) throw error;
    }
  }

  async #listenToFleet(userId: number): Promise<void> {
    const listen = (directory: RemoteFleets) => directory.listen(userId, this.#shard);
    while (!(await callFleetDirectory(this.#env, userId, 'listen', listen)));
  }

  async #checkDevice({
    username,
    password,
  }: Extract<AuthRequest, { username: string }>): Promise<Outcome<RelayIdentity>> {
    const named = parseMessagingName(username);
    if (named === undefined) return refuse({ kind: 'not_found', what: 'device' });
    const digest = await digestIfCertified(readConfig(this.#env).messagingSecrets, named, password);
    return digest.ok ? this.#registerForDevice(named, digest.value) : digest;
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
