// How long the next attempt at an account has to wait after wrong passwords: the numbers, and nothing that counts.

export const freeLoginAttempts = 5;
export const firstLoginDelayMs = 1_000;
export const maxLoginDelayMs = 15 * 60_000;

/** Doubles with each failure from the last free one on: 1 s, 2 s, 4 s and so on up to 15 minutes. */
export function loginDelayMs(failures: number): number {
  if (failures < freeLoginAttempts) return 0;
  return Math.min(maxLoginDelayMs, firstLoginDelayMs * 2 ** (failures - freeLoginAttempts));
}
