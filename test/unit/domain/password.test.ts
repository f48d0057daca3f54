// Password hashing: its parameters are pinned, because local runs would accept what Workers refuse.
import { scryptSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { checkPassword, dummyHash, hashPassword, scryptParameters } from '../../../src/crypto/password.ts';

const noPause = () => Promise.resolve();
const hash = (password: string) => hashPassword(password, noPause);
const check = (password: string, phc: string) => checkPassword(password, phc, noPause);
const encode = (bytes: Buffer) => bytes.toString('base64').replace(/=+$/, '');
/** Counts the pauses. */
function countPauses() {
  let count = 0;
  const pause = () => Promise.resolve((count += 1));
  return { pause, count: () => count };
}

describe('password hashing', () => {
  it('uses scrypt with N=2^13, r=8 ten times, each time within what Workers allow', () => {
    const { ln, r, p, steps } = scryptParameters;
    expect({ ln, r, p, steps }).toEqual({ ln: 13, r: 8, p: 1, steps: 10 });
    expect(2 ** ln * r * p).toBeLessThanOrEqual(2 ** 20);
  });

  it('knows the right password from a wrong one, and salts each hash', async () => {
    const [one, other] = [await hash('correct horse'), await hash('correct horse')];
    expect(one).toMatch(/^\$scrypt-steps\$ln=13,r=8,p=1,t=10\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
    expect(one).not.toBe(other);
    expect(await check('correct horse', one)).toEqual({ isRight: true, isOutdated: false });
    expect(await check('correct horsE', one)).toEqual({ isRight: false, isOutdated: false });
  });

  it('needs each step for the next one, and pauses between them', async () => {
    const { pause, count } = countPauses();
    const phc = await hashPassword('correct horse', pause);
    const [salt = '', key] = phc.split('$').slice(3);
    let expected = Buffer.alloc(0);
    for (let step = 0; step < 10; step += 1) {
      const salted = Buffer.concat([Buffer.from(salt, 'base64'), expected]);
      expected = scryptSync('correct horse', salted, 32, { N: 2 ** 13, r: 8, p: 1 });
    }
    expect([key, count()]).toEqual([encode(expected), 9]);
  });

  it('takes a password typed with composed or combining accents for the same', async () => {
    expect(await check('cafe\u0301 au lait', await hash('caf\u00e9 au lait'))).toMatchObject({ isRight: true });
  });

  it('still knows a password hashed with other parameters in one step, as slowly, and says that it is outdated', async () => {
    const salt = Buffer.from('sixteen bytes ..');
    for (const [ln, p] of [
      [14, 5],
      [10, 1],
    ] as const) {
      const key = scryptSync('correct horse', salt, 32, { N: 2 ** ln, r: 8, p });
      const phc = `$scrypt$ln=${ln},r=8,p=${p}$${encode(salt)}$${encode(key)}`;
      const { pause, count } = countPauses();
      expect(await checkPassword('correct horse', phc, pause)).toEqual({ isRight: true, isOutdated: true });
      expect(count()).toBe(9);
      expect((await check('correct horsE', phc)).isRight).toBe(false);
    }
  });

  it('spends on nobody what it spends on a user', async () => {
    const phc = await hash('anything');
    const shape = (text: string) => text.replace(/[A-Za-z0-9+/]{22,}/g, (part) => `<${part.length}>`);
    expect(shape(dummyHash)).toBe(shape(phc));
    expect((await check('anything', dummyHash)).isRight).toBe(false);
  });

  it('lets nobody in by a hash it cannot read', async () => {
    for (const phc of ['', '-', '$argon2id$v=19$m=1$a$b', '$scrypt-steps$ln=13,r=8,p=1,t=x$AAAA$AAAA']) {
      expect((await check('', phc)).isRight).toBe(false);
    }
  });
});
