// Asks devices' sessions whether relay clients may have what they ask for, and registers this shard with them. Between the
// session's recording the shard and the shard's recording the socket, a push would find no subscriber here and have the
// registration removed again: therefore registrations under way count as subscribers.
import { readConfig } from '../config.ts';
import { digestOf } from '../crypto/secrets.ts';
import { verifyAccessToken } from '../crypto/tokens.ts';
import { refuse, type Outcome } from '../domain/refusal.ts';
import { parseMessagingName, type DeviceIdentity } from '../domain/topics.ts';
import type { RelayRequest } from '../protocol/relay.ts';
import type { RelayIdentity } from './relay-rules.ts';
import { callDevice } from './stubs.ts';

export type AuthRequest = Extract<RelayRequest, { action: 'auth' }>;

export class RelayAuthentication {
  readonly #env: Env;
  readonly #shard: string;
  /** Registrations under way, per device. */
  readonly #registering = new Map<string, number>();
  /** Of those devices, the ones whose credentials were revoked meanwhile. */
  readonly #revoked = new Set<string>();

  constructor(env: Env, shard: string) {
    this.#env = env;
    this.#shard = shard;
  }

  isRegistering(deviceId: string): boolean {
    return this.#registering.has(deviceId);
  }

  onRevoked(deviceId: string): void {
    if (this.isRegistering(deviceId)) this.#revoked.add(deviceId);
  }

  /** @throws RefusedError `object_failed` */
  authenticate(request: AuthRequest): Promise<Outcome<RelayIdentity>> {
    return 'token' in request ? this.#checkToken(request.token) : this.#checkDevice(request);
  }

  /**
   * Registers this shard for a user's subscription; `subscribe` runs while the registration still counts.
   * @throws RefusedError `object_failed`
   */
  registerForUser<T>(
    userId: number,
    { productKey, deviceId }: DeviceIdentity,
    filter: string,
    subscribe: () => Outcome<T>,
  ): Promise<Outcome<T>> {
    return this.#register(deviceId, async () => {
      const outcome = await callDevice(this.#env, deviceId, 'subscribe', 'repeatable', (device) =>
        device.subscribe(userId, productKey, this.#shard, filter),
      );
      return outcome.ok ? subscribe() : outcome;
    });
  }

  async #checkToken(token: string): Promise<Outcome<RelayIdentity>> {
    const access = await verifyAccessToken(readConfig(this.#env), token);
    if (!access.ok) return access;
    return { ok: true, value: { kind: 'user', userId: access.value.userId, expiresAtMs: access.value.expiresAtMs } };
  }

  async #checkDevice(request: Extract<AuthRequest, { username: string }>): Promise<Outcome<RelayIdentity>> {
    const named = parseMessagingName(request.username);
    if (named === undefined) return refuse({ kind: 'not_found', what: 'device' });
    const { productKey, deviceId } = named;
    const passwordDigest = await digestOf(request.password);
    return this.#register(deviceId, async () => {
      const outcome = await callDevice(this.#env, deviceId, 'authenticate', 'repeatable', (device) =>
        device.authenticate({ productKey, passwordDigest, relayShard: this.#shard }),
      );
      if (!outcome.ok) return outcome;
      // Revoked before the answer was here: there was no socket yet to be closed.
      if (this.#revoked.has(deviceId)) {
        return refuse({ kind: 'credential_refused', credential: 'messaging_password', problem: 'revoked' });
      }
      return { ok: true, value: { kind: 'device', ...outcome.value } };
    });
  }

  async #register<T>(deviceId: string, run: () => Promise<T>): Promise<T> {
    this.#registering.set(deviceId, (this.#registering.get(deviceId) ?? 0) + 1);
    try {
      return await run();
    } finally {
      const left = (this.#registering.get(deviceId) ?? 1) - 1;
      if (left > 0) this.#registering.set(deviceId, left);
      else {
        this.#registering.delete(deviceId);
        this.#revoked.delete(deviceId);
      }
    }
  }
}
