// The list of common passwords: that it is what its package has, and which passwords it refuses.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { isCommonPassword } from '../../../src/domain/common-password.ts';

const count = 10_000;
const read = () =>
  JSON.parse(
    readFileSync(fileURLToPath(import.meta.resolve('@zxcvbn-ts/language-common/src/passwords.json')), 'utf8'),
  ) as string[];

// `npx vitest run --project unit test/unit/domain/common-password.test.ts -u` writes the list from the package.
it('stands in the list as in the package, unless its length alone refuses it', async () => {
  const passwords = read()
    .slice(0, count)
    .filter((password) => password.length >= 8);
  expect(passwords.length).toBeGreaterThan(3_000);
  expect(passwords.filter((password) => /\s/.test(password) || password !== password.toLowerCase())).toEqual([]);
  const source =
    'npm package @zxcvbn-ts/language-common (MIT): of its first 10 000 passwords those of 8 characters or more';
  const list = { source, passwords: ` ${passwords.join(' ')} ` };
  const file = '../../../src/domain/common-passwords.json';
  await expect(`${JSON.stringify(list, null, 2)}\n`).toMatchFileSnapshot(file);
});

it('is not allowed in any case, and does not forbid longer ones', () => {
  expect(['password', 'PassWord', 'iloveyou'].filter((password) => !isCommonPassword(password))).toEqual([]);
  expect(['correct horse', 'passwordpasswords', 'asswor', ''].filter(isCommonPassword)).toEqual([]);
});
