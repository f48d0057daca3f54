// A claim token of the user, and the device that comes with it: the service says when one is there, whatever a device itself
// says of it.
import { ApiError, dataOf, NoAnswerError } from '@latchwork/client';
import type { DeviceCode } from './device-code.ts';
import { session } from './session.ts';

export type Claim = { token: string; apiUrl: string; expiresAtMs: number };

const askEveryMs = 1_500;

/**
 * @param base address of the service as the device reaches it
 * @param code of the box: the claim is of that device alone
 * @throws ApiError, NoAnswerError
 */
export async function makeClaim(base: string, code?: DeviceCode): Promise<Claim> {
  const { token, expiresAt } = await dataOf(session().api.devices['claim-tokens'].$post({ json: code ?? {} }));
  return { token, apiUrl: addressWith(base, token), expiresAtMs: Date.parse(expiresAt) };
}

export function addressWith(base: string, token: string): string {
  return `${base.replace(/\/+$/, '')}/t/${token}`;
}

/**
 * Resolves with the id of the device that came with the token; null when the token has expired or `signal` is aborted.
 * A service that gives no answer is asked again. @throws ApiError
 */
export async function waitForDevice({ token, expiresAtMs }: Claim, signal: AbortSignal): Promise<string | null> {
  while (!signal.aborted && Date.now() < expiresAtMs) {
    const deviceId = await readClaim(token);
    if (deviceId !== null) return deviceId;
    await new Promise((resolve) => {
      setTimeout(resolve, askEveryMs);
    });
  }
  return null;
}

async function readClaim(token: string): Promise<string | null> {
  try {
    return (await dataOf(session().api['claim-tokens'][':token'].$get({ param: { token } }))).deviceId;
  } catch (error) {
    const hasExpired = error instanceof ApiError && error.reason === 'not_found';
    if (hasExpired || error instanceof NoAnswerError) return null;
    throw error;
  }
}

/** Only this machine reaches the service there. */
export function isLoopback(base: string): boolean {
  if (!URL.canParse(base)) return false;
  const { hostname } = new URL(base);
  return hostname === 'localhost' || hostname === '[::1]' || hostname.endsWith('.localhost') || /^127\./.test(hostname);
}
