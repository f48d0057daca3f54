// API keys at the relay: whose a key is, and which keys that opened sockets here have ended. Every shard is told of a deletion;
// a shard that was not told reads the keys once a minute. It must not close a socket.
import { readConfig } from '../../config.ts';
import { digestOf, findKeyPair, isEqualDigest } from '../../crypto/secrets.ts';
import { findApiKey, findApiKeys, touchApiKey } from '../../db/accounts/api-keys.ts';
import { openDatabase } from '../../db/client.ts';
import { actorOf, hasScope } from '../../domain/access.ts';
import { BlockedAddresses } from '../../domain/newest.ts';
import { accept, credentialRefused, refuse, type Outcome } from '../../domain/refusal.ts';
import { describeError, log } from '../../log.ts';
import { isWithinShield } from '../../pacing/rate-limits.ts';
import type { RelayRequest } from '../../protocol/relay.ts';
import { within } from '../calls/within.ts';
import type { RelayUser } from './rules.ts';

/** At once, in a shard: each lookup reads the database for a client that is not authenticated. */
const maxLookups = 100;
const touchEveryMs = 60_000;
const databaseAnswerMs = 1_000;

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
      const database = openDatabase(this.#env.DB, 'first-primary');
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
    try {
      const reading = findApiKeys(openDatabase(this.#env.DB, 'first-primary'), [...keyIds]);
      const existing = await within(databaseAnswerMs, reading);
      return existing === undefined ? [] : [...keyIds].filter((keyId) => !existing.includes(keyId));
    } catch (error) {
      log('warn', 'API keys of the relay not checked', describeError(error));
      return [];
    }
  }
}
