// Password hashing: its parameters are pinned, because local runs would accept what Workers refuse.
import { scryptSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { checkPassword, dummyHash, hashPassword, scryptParameters } from '../../src/crypto/password.ts';

describe('password hashing', () => {
  it('uses scrypt with N=2^14, r=8, p=5, within what Workers allow', () => {
    const { ln, r, p } = scryptParameters;
    expect({ ln, r, p }).toEqual({ ln: 14, r: 8, p: 5 });
    expect(2 ** ln * r * p).toBeLessThanOrEqual(2 ** 20);
  });

  it('knows the right password from a wrong one, and salts each hash', async () => {
    const [hash, other] = [await hashPassword('correct horse'), await hashPassword('correct horse')];
    expect(hash).toMatch(/^\$scrypt\$ln=14,r=8,p=5\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
    expect(hash).not.toBe(other);
    expect(await checkPassword('correct horse', hash)).toEqual({ isRight: true, isOutdated: false });
    expect(await checkPassword('correct horsE', hash)).toEqual({ isRight: false, isOutdated: false });
  });

  it('takes a password typed with composed or combining accents for the same', async () => {
    expect(await checkPassword('cafe\u0301 au lait', await hashPassword('caf\u00e9 au lait'))).toMatchObject({
      isRight: true,
    });
  });

  it('still knows a password hashed with other parameters, and says that it is outdated', async () => {
    const salt = Buffer.from('sixteen bytes ..');
    const hash = scryptSync('correct horse', salt, 32, { N: 2 ** 10, r: 8, p: 1 });
    const encode = (bytes: Buffer) => bytes.toString('base64').replace(/=+$/, '');
    const phc = `$scrypt$ln=10,r=8,p=1$${encode(salt)}$${encode(hash)}`;
    expect(await checkPassword('correct horse', phc)).toEqual({ isRight: true, isOutdated: true });
  });

  it('spends on nobody what it spends on a user', async () => {
    const phc = await hashPassword('anything');
    const shape = (text: string) => text.replace(/[A-Za-z0-9+/]{22,}/g, (part) => `<${part.length}>`);
    expect(shape(dummyHash)).toBe(shape(phc));
    expect((await checkPassword('anything', dummyHash)).isRight).toBe(false);
  });

  it('lets nobody in by a hash it cannot read', async () => {
    for (const phc of ['', '-', '$argon2id$v=19$m=1$a$b']) {
      expect((await checkPassword('', phc)).isRight).toBe(false);
    }
  });
});
