// Guest links of the owner's devices, and visitors of their pages. Asserts nothing.
import { exports } from 'cloudflare:workers';
import { bringUp } from './clients/bridge.ts';
import { call, type CallOptions } from './clients/client.ts';
import { nextCommand, owner, reply, type Device } from './commands.ts';

export type Link = { linkId: string; url: string; maxUses: number; state: string };
export type Event = { status: string; reason: string; detail: string; address: string | null };

export const dayMs = 86_400_000;
export const trigger = { action: 'trigger' };
export const inMs = (ms: number) => new Date(Date.now() + ms).toISOString();

const pathOf = ({ deviceId }: Device) => `/devices/${deviceId}/guest-links`;
export const make = (device: Device, body: object = {}, credentials: CallOptions = { token: owner.token }) =>
  call<Link>('POST', pathOf(device), {
    ...credentials,
    body: { command: trigger, expiresAt: inMs(dayMs), ...body },
    headers: { 'CF-Connecting-IP': '198.51.100.1' },
  });
export const listOf = async (device: Device) =>
  (await call<{ total: number; list: Link[] }>('GET', pathOf(device), { token: owner.token })).data.list;
export const revoke = (device: Device, linkId: string) =>
  call('DELETE', `${pathOf(device)}/${linkId}`, { token: owner.token });
export const eventsOf = async ({ deviceId }: Device) => {
  const { data } = await call<{ list: Event[] }>('GET', `/devices/${deviceId}/events`, { token: owner.token });
  return data.list.filter(({ status }) => status === 'guest_link');
};

export async function makeOpen(device: Device, body: object = {}, credentials?: CallOptions): Promise<Link> {
  const { code, message, data } = await make(device, body, credentials);
  if (code !== 200) throw new Error(`not made: ${message}`);
  return data;
}

export const address = '203.0.113.50';

export async function visit(url: string, method = 'GET', requestId?: string, from = address) {
  const body = method === 'POST' ? { body: requestId === undefined ? '' : `request=${requestId}` } : {};
  const headers = {
    'CF-Connecting-IP': from,
    ...(method === 'POST' && { 'Content-Type': 'application/x-www-form-urlencoded' }),
  };
  const response = await exports.default.fetch(new Request(url, { method, headers, ...body }));
  return { status: response.status, headers: response.headers, html: await response.text() };
}

/** Presses the button while the device answers. */
export async function press(device: Device, url: string, requestId?: string) {
  const pressed = visit(url, 'POST', requestId);
  const { id, params } = await nextCommand(device);
  await bringUp(device, reply(id, 200));
  return { ...(await pressed), params };
}
