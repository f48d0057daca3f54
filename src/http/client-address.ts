// The address a request comes from, for rate limits. Not an identity: addresses are shared and change.
import type { Context } from 'hono';

/** The caller's IPv4 address, or its IPv6 /64, which usually belongs to one client. */
export function readClientAddress(c: Pick<Context, 'req'>): string {
  const address = c.req.header('CF-Connecting-IP') ?? 'unknown';
  return address.includes(':') ? networkOf(address) : address;
}

function networkOf(address: string): string {
  const [head = '', tail = ''] = address.split('::');
  const groups = head.split(':').filter((group) => group !== '');
  const tailGroups = tail.split(':').filter((group) => group !== '');
  const zeros = address.includes('::') ? Math.max(0, 8 - groups.length - tailGroups.length) : 0;
  const all = [...groups, ...Array.from({ length: zeros }, () => '0'), ...tailGroups];
  return `${all.slice(0, 4).join(':')}::/64`;
}
