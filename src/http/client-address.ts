// The address a request comes from, for rate limits. Not an identity: addresses are shared and change.
import type { Context } from 'hono';
import { networkOf } from '../domain/client-network.ts';

/** The caller's IPv4 address, or its IPv6 /64, which usually belongs to one client. */
export function readClientAddress(c: Pick<Context, 'req'>): string {
  return networkOf(c.req.header('CF-Connecting-IP') ?? 'unknown');
}
