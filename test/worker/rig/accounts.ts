// Accounts that register and log in over HTTP, and what an operator does to them. Asserts nothing.
import { call, type Answer } from './clients/client.ts';
import { callWith } from './limited.ts';

export type Session = { token: string; refreshToken: string; user: { userId: number } };
export type Account = Session & { email: string; userId: number };

export const password = 'correct horse';
export const newPassword = 'battery staple';
export const operatorHeaders = { Authorization: 'Bearer operator-secret-of-the-worker-tests-only' };

export const newEmail = () => `${crypto.randomUUID()}@example.test`;
export const register = (email: string) =>
  call<{ userId: number }>('POST', '/users/register', { body: { email, password } });
export const logIn = (email: string, shown = password, headers: Record<string, string> = {}) =>
  call<Session>('POST', '/users/login', { body: { email, password: shown }, headers });

/** A new account with its first session. */
export async function openAccount(): Promise<Account> {
  const email = newEmail();
  await register(email);
  const { data } = await logIn(email);
  return { ...data, email, userId: data.user.userId };
}

export const operate = <T = never>(path: string, body: object, bindings: object = {}): Promise<Answer<T>> =>
  callWith(bindings, 'POST', `/operator${path}`, { headers: operatorHeaders, body });
