// Password hashing: its parameters are pinned, because local runs would accept what Workers refuse.
import { scryptSync } from 'node:crypto';
import { expect, it } from 'vitest';
import { checkPassword, dummyHash, hashPassword, scryptParameters } from '../../../src/crypto/password.ts';

const encode = (bytes: Buffer) => bytes.toString('base64').replace(/=+$/, '');

it('uses scrypt with N=2^14, r=8, p=5, within what Workers allow', () => {
  const { ln, r, p } = scryptParameters;
  expect({ ln, r, p }).toEqual({ ln: 14, r: 8, p: 5 });
  expect(2 ** ln * r * p).toBeLessThanOrEqual(2 ** 20);
});

it('knows the right password from a wrong one, and salts each hash', async () => {
  const [first, second] = [await hashPassword('correct horse'), await hashPassword('correct horse')];
  expect(first).toMatch(/^\$scrypt\$ln=14,r=8,p=5\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
  expect(first).not.toBe(second);
  expect(await checkPassword('correct horse', first)).toBe(true);
  expect(await checkPassword('correct horsE', first)).toBe(false);
});

it('is the scrypt of every library', async () => {
  const salt = Buffer.from('sixteen bytes ..');
  const key = scryptSync('correct horse', salt, 32, { N: 2 ** 14, r: 8, p: 5 });
  expect(await checkPassword('correct horse', `$scrypt$ln=14,r=8,p=5$${encode(salt)}$${encode(key)}`)).toBe(true);
});

it('takes a password typed with composed or combining accents for the same', async () => {
  expect(await checkPassword('cafe\u0301 au lait', await hashPassword('caf\u00e9 au lait'))).toBe(true);
});

it('spends on nobody what it spends on a user', async () => {
  const shape = (text: string) => text.replace(/[A-Za-z0-9+/]{22,}/g, (part) => `<${part.length}>`);
  expect(shape(dummyHash)).toBe(shape(await hashPassword('anything')));
  expect(await checkPassword('anything', dummyHash)).toBe(false);
});

it('lets nobody in by a hash it cannot read', async () => {
  for (const phc of ['', '-', '$argon2id$v=19$m=1$a$b', '$scrypt$ln=14,r=8,p=5$AAAA$AAAA', dummyHash.slice(22)]) {
    expect(await checkPassword('', phc)).toBe(false);
  }
});
