// The address a request comes from, for rate limits. Not an identity: addresses are shared and change. A gateway tells the
// device's, and is believed only with a secret.
import { createMiddleware } from 'hono/factory';
import type { Context, MiddlewareHandler } from 'hono';
import { networkOf } from '../domain/client-network.ts';
import { invalidInput } from '../domain/refusal.ts';
import { holdToShield, type FloodShield } from '../pacing/rate-limits.ts';
import { deviceAddressHeader } from '../protocol/gateway.ts';
import type { AppEnv } from './router.ts';
import { holdToSecret } from './secret-header.ts';

const maxUserAgentLength = 200;

/** What a caller says of itself: shown to the user whose session it is, and believed by nobody. */
export function readUserAgent(c: Context): string {
  return c.req.header('User-Agent')?.slice(0, maxUserAgentLength) ?? '';
}

/**
 * Takes the address that a gateway tells. Refused rather than ignored with a wrong secret: the devices of a gateway would
 * otherwise all count as one address, and nobody would learn why.
 */
export const trustGateway = createMiddleware<AppEnv>(async (c, next) => {
  const address = c.req.header(deviceAddressHeader);
  if (address !== undefined) {
    await holdToSecret(c, 'gatewaySecrets');
    if (!/^[0-9A-Fa-f.:]{2,45}$/.test(address)) throw invalidInput(deviceAddressHeader, 'expected an IP address');
    c.set('context', { ...c.var.context, clientAddress: networkOf(address) });
  }
  await next();
});

/** A flood shield: 429 above the limit. Counts by client address; those of commands by user: they go after `authenticate`. */
export function limitRate(shield: FloodShield) {
  return createMiddleware<AppEnv>(async (c, next) => {
    const { context, caller } = c.var;
    const isOfUser = shield === 'CONTROL_LIMIT' || shield === 'BULK_LIMIT';
    await holdToShield(context, shield, isOfUser ? `user ${caller.userId}` : context.clientAddress);
    await next();
  });
}

/** An access of authenticate.ts with a flood shield behind it. */
export function limitedBy<Access extends { middleware: MiddlewareHandler }>(shield: FloodShield, access: Access) {
  return { ...access, middleware: [access.middleware, limitRate(shield)] as const };
}
