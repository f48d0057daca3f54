// Asks devices' sessions whether relay clients may have what they ask for, and registers this shard with them. Between the
// session's recording the shard and the shard's recording the socket, a push would find no subscriber here and have the
// registration removed again: therefore registrations under way count as subscribers.
import { readConfig } from '../../config.ts';
import { digestOf, findKeyPair, isEqualDigest } from '../../crypto/secrets.ts';
import { verifyAccessToken } from '../../crypto/tokens.ts';
import { findApiKey, findApiKeys, touchApiKey } from '../../db/accounts/api-keys.ts';
import { openDatabase } from '../../db/client.ts';
import { actorOf, hasScope, inPerson } from '../../domain/access.ts';
import { BlockedAddresses } from '../../domain/newest.ts';
import { accept, credentialRefused, refuse, type Outcome } from '../../domain/refusal.ts';
import { parseMessagingName, type DeviceIdentity } from '../../domain/topics.ts';
import { isWithinShield } from '../../pacing/rate-limits.ts';
import type { RelayRequest } from '../../protocol/relay.ts';
import { digestIfCertified } from '../../crypto/messaging-password.ts';
import { orFailed } from '../calls/background.ts';
import { readRevokedUsers } from '../calls/revoked-users.ts';
import type { RelayDevice, RelayIdentity, RelayUser } from './rules.ts';
import { callDevice, listenToFleet, resultOr } from '../calls/stubs.ts';
import { within } from '../calls/within.ts';

/** At once, in a shard: each lookup reads the database for a client that is not authenticated. */
const maxLookups = 100;
const touchEveryMs = 60_000;
const databaseAnswerMs = 1_000;

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

  /** @throws RefusedError `object_failed` */
  registerFleet<T>(userId: number, subscribe: () => Outcome<T>): Promise<Outcome<T>> {
    return this.#register(userId, async () => {
      await listenToFleet(this.#env, userId, this.#shard);
      return subscribe();
    });
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

/**
 * Whose an API key is, and which keys that opened sockets here have ended. Every shard is told of a deletion; one that was not told
 * reads the keys once a minute.
 */
export class RelayKeys {
  readonly #env: Env;
  readonly #underWay = new Set<{ keyId: string; isEnded: boolean }>();
  readonly #blocked = new BlockedAddresses();

  constructor(env: Env) {
    this.#env = env;
  }

  /** The pair either way round, as over HTTP. @throws Error if D1 does not answer */
  async check(request: Extract<RelayRequest, { apiKey: string }>, address: string): Promise<Outcome<RelayUser>> {
    const pair = findKeyPair(Object.values(request).map((part) => part.trim()));
    if (pair === undefined) return refuse(credentialRefused('api_key', 'malformed'));
    const { keyId, secret } = pair;
    const secondsLeft = this.#blocked.secondsLeft(address);
    if (secondsLeft > 0 || this.#underWay.size >= maxLookups) {
      const limit = secondsLeft > 0 ? 'KEY_FAILURE_LIMIT' : 'api_key_lookups';
      return refuse({ kind: 'rate_limited', limit, retryAfterSeconds: Math.max(1, secondsLeft) });
    }
    const lookup = { keyId, isEnded: false };
    this.#underWay.add(lookup);
    try {
      const database = openDatabase(this.#env.DB);
      const row = await findApiKey(database, keyId);
      const isRight = row !== undefined && isEqualDigest(await digestOf(secret), row.secretHash);
      if (!isRight) {
        const limited = { env: this.#env, config: readConfig(this.#env) };
        if (!(await isWithinShield(limited, 'KEY_FAILURE_LIMIT', address))) this.#blocked.block(address);
        return refuse(credentialRefused('api_key', 'wrong'));
      }
      // Deleted while it was read.
      if (lookup.isEnded) return refuse(credentialRefused('api_key', 'revoked'));
      const nowMs = Date.now();
      await touchApiKey(database, keyId, nowMs, nowMs - touchEveryMs);
      const actor = actorOf(row);
      if (!hasScope(actor, 'readReports')) {
        return refuse({ kind: 'key_lacks_right', lacks: 'scope', action: 'readReports' });
      }
      return accept({ kind: 'user', ...actor, expiresAtMs: null });
    } finally {
      this.#underWay.delete(lookup);
    }
  }

  onEnded(keyId: string): void {
    for (const lookup of this.#underWay) if (lookup.keyId === keyId) lookup.isEnded = true;
  }

  /** The keys that were deleted, or whose account is disabled. None if D1 does not answer: the next check asks again. */
  async findEnded(keyIds: ReadonlySet<string>): Promise<string[]> {
    if (keyIds.size === 0) return [];
    const reading = within(databaseAnswerMs, findApiKeys(openDatabase(this.#env.DB), [...keyIds]));
    const existing = await orFailed('API keys of the relay not checked', {}, reading);
    if (existing === undefined || existing === 'failed') return [];
    return [...keyIds].filter((keyId) => !existing.includes(keyId));
  }
}
