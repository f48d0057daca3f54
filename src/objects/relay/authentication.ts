// Asks devices' sessions whether relay clients may have what they ask for, and registers this shard with them. Between the
// session's recording the shard and the shard's recording the socket, a push would find no subscriber here and have the
// registration removed again: therefore registrations under way count as subscribers.
import { readConfig } from '../../config.ts';
import { verifyAccessToken } from '../../crypto/tokens.ts';
import { actorOf, inPerson } from '../../domain/access.ts';
import { accept, credentialRefused, refuse, type Outcome } from '../../domain/refusal.ts';
import { parseMessagingName, type DeviceIdentity } from '../../domain/topics.ts';
import type { RelayRequest } from '../../protocol/relay.ts';
import { digestIfCertified } from '../../crypto/messaging-password.ts';
import { readRevokedUsers } from '../calls/revoked-users.ts';
import { RelayKeys } from './keys.ts';
import { type RelayDevice, type RelayIdentity, type RelayUser } from './rules.ts';
import { callDevice, callFleetDirectory, resultOr } from '../calls/stubs.ts';

export type AuthRequest = Extract<RelayRequest, { action: 'auth' }>;

type Registration = {
  /** The id of a device, or of a user for all devices of the user. */
  target: string | number;
  /** The credentials that are valid since others ended meanwhile. */
  liveGenerations: readonly number[] | undefined;
  /** Users who lost their right to the device meanwhile. */
  endedUserIds: number[];
};

export class RelayAuthentication {
  readonly #env: Env;
  readonly #shard: string;
  readonly keys: RelayKeys;
  readonly #registrations = new Set<Registration>();

  constructor(env: Env, shard: string) {
    this.#env = env;
    this.#shard = shard;
    this.keys = new RelayKeys(env);
  }

  isRegistering(target: Registration['target']): boolean {
    return this.#registrationsOf(target).length > 0;
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
    if ((await readRevokedUsers(this.#env)).has(userId)) return refuse(credentialRefused('session', 'unknown_account'));
    return accept({ kind: 'user', ...inPerson(userId), expiresAtMs });
  }

  /** False if the device's session does not answer. */
  isRevoked({ productKey, deviceId, generation }: RelayDevice): Promise<boolean> {
    const called = callDevice(this.#env, deviceId, 'idempotent').hasRevoked({ productKey, generation });
    return resultOr(false, called);
  }

  /** `subscribe` runs while the registration still counts. @throws RefusedError `object_failed` */
  registerForUser<T>(
    user: RelayUser,
    { productKey, deviceId }: DeviceIdentity,
    filter: string,
    subscribe: () => Outcome<T>,
  ): Promise<Outcome<T>> {
    return this.#register(deviceId, async ({ endedUserIds }) => {
      const device = callDevice(this.#env, deviceId, 'idempotent');
      const request = { actor: actorOf(user), productKey, shard: this.#shard, filter };
      const outcome = await device.decide({ kind: 'subscription_requested', ...request });
      // The right ended before the answer was here: there was no subscription yet to be ended.
      if (endedUserIds.includes(user.userId)) return refuse({ kind: 'not_owner', of: 'device', id: deviceId });
      return outcome.ok ? subscribe() : outcome;
    });
  }

  /** When it resolves, no device relies on an older answer. @throws RefusedError `object_failed` */
  registerFleet<T>(userId: number, subscribe: () => Outcome<T>): Promise<Outcome<T>> {
    return this.#register(userId, async () => {
      await this.#listenToFleet(userId);
      return subscribe();
    });
  }

  /** For sockets of the user that are here: the directory may have been restored without this shard. */
  async confirmFleet(userId: number): Promise<void> {
    const directory = callFleetDirectory(this.#env, userId, 'idempotent');
    const isListening = await resultOr(true, directory.confirm(userId, this.#shard));
    if (!isListening) await resultOr(undefined, this.#listenToFleet(userId));
  }

  async #listenToFleet(userId: number): Promise<void> {
    while (!(await callFleetDirectory(this.#env, userId, 'idempotent').listen(userId, this.#shard)));
  }

  async #checkDevice(request: Extract<AuthRequest, { username: string }>): Promise<Outcome<RelayIdentity>> {
    const named = parseMessagingName(request.username);
    if (named === undefined) return refuse({ kind: 'not_found', what: 'device' });
    const digest = await digestIfCertified(readConfig(this.#env).messagingSecrets, named, request.password);
    if (!digest.ok) return digest;
    const login = { productKey: named.productKey, passwordDigest: digest.value, relayShard: this.#shard };
    return this.#register(named.deviceId, async (registration) => {
      const outcome = await callDevice(this.#env, named.deviceId, 'idempotent').authenticate(login);
      if (!outcome.ok) return outcome;
      // Revoked before the answer was here: there was no socket yet to be closed.
      if (registration.liveGenerations?.includes(outcome.value.generation) === false) {
        return refuse({ kind: 'credential_refused', credential: 'messaging_password', problem: 'revoked' });
      }
      return accept({ kind: 'device', ...outcome.value });
    });
  }

  async #register<T>(target: string | number, run: (registration: Registration) => Promise<T>): Promise<T> {
    const registration: Registration = { target, liveGenerations: undefined, endedUserIds: [] };
    this.#registrations.add(registration);
    try {
      return await run(registration);
    } finally {
      this.#registrations.delete(registration);
    }
  }

  #registrationsOf(target: string | number): Registration[] {
    return [...this.#registrations].filter((registration) => registration.target === target);
  }
}
