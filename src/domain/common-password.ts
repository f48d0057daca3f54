// Whether a password is among the 10 000 most common. Asked while a password is set, never at a login.
import common from './common-passwords.json';

/** As one text, which costs nothing until it is searched. All entries are in lower case and have no spaces. */
const { passwords } = common;

export function isCommonPassword(password: string): boolean {
  return passwords.includes(` ${password.toLowerCase()} `);
}
