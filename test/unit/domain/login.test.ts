// A login with an unknown name, with the database left out: what is answered over HTTP is in worker/sessions.
import { expect, it, vi } from 'vitest';
import { checkPassword, dummyHash } from '../../../src/crypto/password.ts';

// The platform's own module: nothing here outlives its request.
vi.mock('cloudflare:workers', () => ({ waitUntil: () => undefined }));
vi.mock('../../../src/crypto/password.ts', { spy: true });
vi.mock('../../../src/db/client.ts');
vi.mock('../../../src/db/accounts/users.ts');
vi.mock('../../../src/services/accounts/login-attempts.ts', () => ({
  beginLoginAttempt: () => Promise.resolve({ isKnownDevice: false }),
  countFailure: () => Promise.resolve(),
}));
vi.mock('../../../src/pacing/password-queue.ts', () => ({
  passwordQueueOf: () => ({ run: (_client: object, hash: () => unknown) => hash(), refuseIfFull: () => undefined }),
  isFamiliarClient: () => false,
}));

type Sessions = { logIn: (context: object, given: object) => Promise<unknown> };
// Not imported by a literal: the services need the types of workerd, and the tests here have those of Node.
const path = '../../../src/services/accounts/sessions.ts';
const { logIn } = (await import(path)) as Sessions;

it('hashes the password for an unknown name, too, so that both take as long', async () => {
  const given = { name: 'nobody', password: 'wrong horse', clientAddress: '192.0.2.1' };
  await expect(logIn({ primary: () => ({}), config: {} }, given)).rejects.toThrow();
  expect(checkPassword).toHaveBeenCalledExactlyOnceWith('wrong horse', dummyHash);
});
