// How long the next login attempt at an account has to wait after failed ones: from the fifth failure on, the delay doubles
// with each, up to the maximum. Computed in db/login-attempts.ts, where the failures are counted.

export const freeLoginAttempts = 5;
export const firstLoginDelayMs = 1_000;
export const maxLoginDelayMs = 15 * 60_000;
