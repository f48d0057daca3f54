// API keys at the relay: whose one is, and which of those that opened sockets here have ended. Their deletion is told to every
// shard; one that was not told reads it. Memory beside D1: what failed, and when a key was last read, by shard.
import { readConfig } from '../../config.ts';
import { digestOf, isEqualDigest } from '../../crypto/secrets.ts';
import { findApiKey, findApiKeys, touchApiKey } from '../../db/accounts/api-keys.ts';
import { openDatabase } from '../../db/client.ts';
import { hasScope, scopes } from '../../domain/access.ts';
import { rememberNewest } from '../../domain/newest.ts';
import { credentialRefused, refuse, type Outcome } from '../../domain/refusal.ts';
import { describeError, log } from '../../log.ts';
import type { RelayUser } from './rules.ts';

const keyIdPattern = /^ak_[A-Za-z0-9]{20}$/;
const apiKeyPattern = /^sk_[A-Za-z0-9]{40}$/;
const blockedMs = 60_000;
const maxBlocked = 10_000;
/** At once, by shard: each reads the database for a stranger. */
const maxLookups = 100;
const touchEveryMs = 60_000;
/** So long counts what was read of a key: a deletion ends it everywhere within a second. */
const countsForMs = 1_000;

export class RelayKeys {
  readonly #env: Env;
  /** Look-ups under way, by their key. */
  readonly #underWay = new Set<{ keyId: string; isEnded: boolean }>();
  /** Client addresses that tried too many wrong pairs. */
  readonly #blockedUntilMs = new Map<string, number>();
  /** When a key was last read and counted. */
  readonly #readAtMs = new Map<string, number>();

  constructor(env: Env) {
    this.#env = env;
  }

  /** The pair either way round, as over HTTP. @throws Error where D1 does not answer */
  async check(
    { apiKey, apiSecret }: { apiKey: string; apiSecret: string },
    address: string,
  ): Promise<Outcome<RelayUser>> {
    const pair = [apiKey.trim(), apiSecret.trim()];
    const keyId = pair.find((part) => keyIdPattern.test(part));
    const secret = pair.find((part) => apiKeyPattern.test(part));
    if (keyId === undefined || secret === undefined) return refuse(credentialRefused('api_key', 'malformed'));
    const blockedForMs = (this.#blockedUntilMs.get(address) ?? 0) - Date.now();
    if (blockedForMs > 0 || this.#underWay.size >= maxLookups) {
      const retryAfterSeconds = Math.max(1, Math.ceil(blockedForMs / 1000));
      const limit = blockedForMs > 0 ? 'KEY_FAILURE_LIMIT' : 'api_key_lookups';
      return refuse({ kind: 'rate_limited', limit, retryAfterSeconds });
    }
    const lookup = { keyId, isEnded: false };
    this.#underWay.add(lookup);
    try {
      const database = openDatabase(this.#env.DB, 'first-primary');
      const readAtMs = Date.now();
      const row = await findApiKey(database, keyId);
      const isRight = row !== undefined && isEqualDigest(await digestOf(secret), row.secretHash);
      if (!isRight) {
        await this.#countFailure(address);
        return refuse(credentialRefused('api_key', 'wrong'));
      }
      // Deleted while it was read.
      if (lookup.isEnded) return refuse(credentialRefused('api_key', 'revoked'));
      const nowMs = Date.now();
      await touchApiKey(database, keyId, nowMs, nowMs - touchEveryMs);
      const { userId, productKey } = row;
      const key = { keyId, scopes: [...(row.scopes ?? scopes)], productKey };
      if (!hasScope({ userId, ...key }, 'readReports')) {
        return refuse({ kind: 'key_lacks_right', lacks: 'scope', action: 'readReports' });
      }
      this.#readAtMs.set(keyId, readAtMs);
      return { ok: true, value: { kind: 'user', userId, expiresAtMs: null, key } };
    } finally {
      this.#underWay.delete(lookup);
    }
  }

  onEnded(keyId: string): void {
    for (const lookup of this.#underWay) if (lookup.keyId === keyId) lookup.isEnded = true;
  }

  /** Milliseconds since it was last read; undefined where that is too long ago to count. */
  ageOf(keyId: string): number | undefined {
    const ageMs = Date.now() - (this.#readAtMs.get(keyId) ?? 0);
    // Not one of a time that is still to come: the clock was set back since.
    return ageMs >= 0 && ageMs < countsForMs ? ageMs : undefined;
  }

  /**
   * Those that are none any more, also because their account is disabled. None where D1 does not answer within a second:
   * then nobody can delete one either.
   */
  async findEnded(keyIds: ReadonlySet<string>): Promise<string[]> {
    if (keyIds.size === 0) return [];
    const readAtMs = Date.now();
    for (const keyId of this.#readAtMs.keys()) if (this.ageOf(keyId) === undefined) this.#readAtMs.delete(keyId);
    const found = await this.#find(keyIds);
    for (const keyId of found ?? keyIds) this.#readAtMs.set(keyId, found === undefined ? Date.now() : readAtMs);
    return found === undefined ? [] : [...keyIds].filter((keyId) => !found.has(keyId));
  }

  async #find(keyIds: ReadonlySet<string>): Promise<ReadonlySet<string> | undefined> {
    const { promise: late, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      reject(new Error('the database does not answer'));
    }, countsForMs);
    try {
      const asked = findApiKeys(openDatabase(this.#env.DB, 'first-primary'), [...keyIds]);
      return new Set(await Promise.race([asked, late]));
    } catch (error) {
      log('warn', 'API keys of the relay not checked', describeError(error));
      return undefined;
    } finally {
      clearTimeout(timer);
    }
  }

  async #countFailure(address: string): Promise<void> {
    if (readConfig(this.#env).rateLimits !== 'production') return;
    if ((await this.#env.KEY_FAILURE_LIMIT.limit({ key: address })).success) return;
    rememberNewest(this.#blockedUntilMs, address, Date.now() + blockedMs, maxBlocked);
  }
}
