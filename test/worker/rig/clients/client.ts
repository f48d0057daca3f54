// A client of the Worker under test, inside workerd: accounts made by one insert, and calls that read the
// envelope. Asserts nothing.
import { env, exports } from 'cloudflare:workers';
import { readConfig } from '../../../../src/config.ts';
import { createId } from '../../../../src/crypto/secrets.ts';
import { signAccessToken } from '../../../../src/crypto/tokens.ts';
import { openDatabase } from '../../../../src/db/client.ts';
import { refreshTokens, users } from '../../../../src/db/schema/accounts.ts';
import type { TestDevice } from '../provision.ts';

export type TestUser = { userId: number; token: string; email: string };

export type CallOptions = {
  token?: string | undefined;
  key?: { keyId: string; apiKey: string };
  /** Sent as JSON; a string is sent as it is. */
  body?: unknown;
  headers?: Record<string, string>;
};

export type Answer<T> = { status: number; headers: Headers; code: number; message: string; data: T };

let userCount = 0;

/** A user without a usable password (scrypt costs 100 ms): register one through the interface where it matters. */
export async function createUser(): Promise<TestUser> {
  const name = `user-${++userCount}-${crypto.randomUUID()}@example.test`;
  const database = openDatabase(env.DB);
  const [row] = await database
    .insert(users)
    .values({
      username: name,
      email: name,
      foldedUsername: name,
      foldedEmail: name,
      passwordHash: '-',
      projectId: createId('prj_', 8),
      createdAt: Date.now(),
    })
    .returning({ id: users.id });
  const userId = row!.id;
  return { userId, email: name, token: await openSession(userId) };
}

/** An access token of an open session that began `ageMs` ago. A second call opens the same session again. */
export async function openSession(userId: number, ageMs = 0, sessionId = `session-of-${userId}`): Promise<string> {
  const createdAt = Date.now() - ageMs;
  const row = { family: sessionId, sessionId, userId, createdAt, expiresAt: createdAt + 30 * 86_400_000 };
  await openDatabase(env.DB)
    .insert(refreshTokens)
    .values({ ...row, hash: sessionId, clientAddress: '', userAgent: '' })
    .onConflictDoUpdate({ target: refreshTokens.hash, set: { createdAt } });
  return signAccessToken(readConfig(env), userId, sessionId);
}

/** A new product of the user, by its key. @param more further fields of the product */
export async function makeProduct({ token }: { token: string }, more: object = {}): Promise<string> {
  const productKey = `made-${crypto.randomUUID()}`;
  const { message } = await call('POST', '/products', { token, body: { productKey, name: 'Switch', ...more } });
  if (message !== 'success') throw new Error(`no product: ${message}`);
  return productKey;
}

/** Activates a device under a new product of the user. @param product more fields of the product */
export async function makeDevice(user: { token: string }, product: object = {}): Promise<TestDevice> {
  const productKey = await makeProduct(user, product);
  type Activation = { deviceId: string; mqtt: { username: string; password: string } };
  const { data } = await call<Activation>('POST', '/devices/activate', { body: { productKey, deviceSN: 'SN' } });
  return { productKey, deviceId: data.deviceId, name: data.mqtt.username, password: data.mqtt.password };
}

/** Calls `path` below /api/v1 (or an absolute one that starts with a slash and another prefix) and reads the envelope. */
export async function call<T = never>(method: string, path: string, options: CallOptions = {}): Promise<Answer<T>> {
  return readAnswer(await send(method, path, options));
}

export function send(method: string, path: string, options: CallOptions = {}): Promise<Response> {
  return exports.default.fetch(requestOf(method, path, options));
}

export async function readAnswer<T>(response: Response): Promise<Answer<T>> {
  const envelope = await response.json<{ code: number; message: string; data: T }>();
  return { status: response.status, headers: response.headers, ...envelope };
}

export function requestOf(method: string, path: string, options: CallOptions): Request {
  const headers = new Headers(options.headers);
  if (options.token !== undefined) headers.set('Authorization', `Bearer ${options.token}`);
  if (options.key !== undefined) {
    headers.set('X-API-Key', options.key.keyId);
    headers.set('X-API-Secret', options.key.apiKey);
  }
  const body =
    options.body === undefined || typeof options.body === 'string' ? options.body : JSON.stringify(options.body);
  if (body !== undefined && !headers.has('Content-Type')) headers.set('Content-Type', 'application/json');
  const isBelowApi = /^\/(users|products|devices|invitations|claim-tokens|webhooks|groups|scenes|commands|bulk)\b/.test(
    path,
  );
  const url = `https://latchwork.test${isBelowApi ? '/api/v1' : ''}${path}`;
  return new Request(url, { method, headers, ...(body === undefined ? {} : { body }) });
}
