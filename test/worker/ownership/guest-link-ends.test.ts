// What ends a guest link, and what an address that nobody was given may do.
import { env } from 'cloudflare:workers';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { createKey } from '../rig/authorization-callers.ts';
import { call, createUser } from '../rig/clients/client.ts';
import {
  activateOnline,
  prepareOwnerAndBridge,
  owner,
  setClock,
  sleep,
  unheard,
  type Device,
} from '../rig/commands.ts';
import { sendWith } from '../rig/limited.ts';
import { type Link, dayMs, make, listOf, revoke, eventsOf, makeOpen, visit, press } from '../rig/guest-links.ts';

prepareOwnerAndBridge();

describe('a guest link ends', () => {
  let device: Device;
  let link: Link;

  beforeEach(async () => {
    device = await activateOnline();
    link = await makeOpen(device);
    expect(await visit(link.url)).toMatchObject({ status: 200 });
  });

  async function expectEnd(text: string): Promise<void> {
    for (const method of ['GET', 'POST']) {
      const { status, html } = await visit(link.url, method);
      expect([method, status]).toEqual([method, 410]);
      expect(html).toContain(text);
    }
    expect(unheard(device)).toEqual([]);
  }

  it('when it is revoked', async () => {
    expect(await revoke(device, link.linkId)).toMatchObject({ code: 200, data: { linkId: link.linkId } });
    expect(await revoke(device, link.linkId)).toMatchObject({ code: 404, message: 'not_found' });
    await expectEnd('This link does not work any more.');
    expect(await listOf(device)).toEqual([]);
    expect((await eventsOf(device)).map(({ reason }) => reason)).toEqual(['link_revoked', 'link_made']);
  });

  it('when its time is over', async () => {
    setClock(Date.now() + dayMs + 1);
    await expectEnd('This link has expired.');
  });

  it('when the device is disabled, for good', async () => {
    const path = `/devices/${device.deviceId}`;
    await call('PATCH', path, { token: owner.token, body: { disabled: true } });
    expect(await make(device)).toMatchObject({ code: 403, message: 'device_disabled' });
    await expectEnd('This link has ended, because the device was disabled.');
    await call('PATCH', path, { token: owner.token, body: { disabled: false } });
    await expectEnd('This link has ended, because the device was disabled.');
    expect(await listOf(device)).toMatchObject([{ state: 'ended' }]);
    await makeOpen(device);
    expect(await listOf(device)).toMatchObject([{ state: 'open' }]);
  });

  it('when the device is released', async () => {
    await call('POST', `/devices/${device.deviceId}/release`, { token: owner.token });
    await expectEnd('This link does not work any more.');
    expect(await listOf(device)).toEqual([]);
    await sleep(device);
    await expectEnd('This link does not work any more.');
    expect(await eventsOf(device)).toEqual([]);
  });

  it('when the device is handed to somebody else', async () => {
    const buyer = await createUser();
    const path = `/devices/${device.deviceId}/transfer`;
    await call('POST', path, { token: owner.token, body: { email: buyer.email } });
    expect(await visit(link.url)).toMatchObject({ status: 200 });
    expect(await call('POST', `${path}/accept`, { token: buyer.token })).toMatchObject({ code: 200 });
    await expectEnd('This link does not work any more.');
    await sleep(device);
    await expectEnd('This link does not work any more.');
  });

  it('when the API key that made it is deleted: it does not move the device', async () => {
    const key = await createKey(owner);
    const stays = link;
    await makeOpen(device, {}, { key });
    link = await makeOpen(device, {}, { key });
    await sleep(device);
    expect(await press(device, link.url)).toMatchObject({ status: 200 });
    await call('DELETE', `/users/api-keys/${key.keyId}`, { token: owner.token });
    await expectEnd('This link does not work any more.');
    // One of them was not tried.
    expect((await listOf(device)).map(({ state }) => state)).toEqual(['ended', 'ended', 'open']);
    await sleep(device);
    await expectEnd('This link does not work any more.');
    expect(await press(device, stays.url)).toMatchObject({ status: 200 });
  });

  it('when the device is deleted', async () => {
    await call('DELETE', `/devices/${device.deviceId}`, { token: owner.token });
    await expectEnd('This link does not work any more.');
  });
});

describe('an address that nobody was given', () => {
  it('is refused without a call of an object, and is no other door either', async () => {
    const [one, other] = [await makeOpen(await activateOnline()), await makeOpen(await activateOnline())];
    const getByName = vi.spyOn(env.DEVICE_SESSION, 'getByName');
    const base = 'https://latchwork.test/g/';
    const [first, second] = [one.url.slice(base.length), other.url.slice(base.length)];
    const last = first.at(-1) === 'A' ? 'B' : 'A';
    for (const token of [
      first.slice(0, -1) + last,
      first.slice(0, 24) + second.slice(24),
      second.slice(0, 8) + first.slice(8),
      first.toUpperCase(),
      `${first}A`,
      first.slice(1),
      one.linkId,
      '0'.repeat(50),
      '%00',
      '%ZZ',
    ]) {
      for (const method of ['GET', 'POST']) {
        expect([token, method, (await visit(base + token, method)).status]).toEqual([token, method, 404]);
      }
    }
    expect(getByName).not.toHaveBeenCalled();
  });

  it('is refused soon where an address tries many, and with it all that it tries', async () => {
    const { url } = await makeOpen(await activateOnline());
    const counted: string[] = [];
    const GUEST_LIMIT: RateLimit = {
      limit: ({ key }) => {
        counted.push(key);
        return Promise.resolve({ success: key !== '198.51.100.99' });
      },
    };
    const from = (address: string, target: string) =>
      sendWith({ RATE_LIMITS: 'production', GUEST_LIMIT }, 'GET', new URL(target).pathname, {
        headers: { 'CF-Connecting-IP': address },
      });
    const statuses = [];
    for (let guess = 0; guess < 22; guess++) {
      statuses.push((await from('198.51.100.77', `https://latchwork.test/g/${'0'.repeat(50)}`)).status);
    }
    expect(statuses).toEqual([...Array.from({ length: 21 }, () => 404), 429]);
    const blocked = await from('198.51.100.77', url);
    expect(blocked.status).toBe(429);
    expect(Number(blocked.headers.get('Retry-After'))).toBeGreaterThan(50);
    expect((await from('198.51.100.78', url)).status).toBe(200);
    expect((await from('198.51.100.99', url)).status).toBe(429);
    // A guess is told by its code alone.
    expect(counted).toEqual(['198.51.100.78', '198.51.100.99']);
  });
});

it('the log names the route of a guest page and never its token', async () => {
  const device = await activateOnline();
  const { url } = await makeOpen(device);
  const lines: string[] = [];
  for (const method of ['log', 'info', 'warn', 'error'] as const) {
    vi.spyOn(console, method).mockImplementation((...parts: unknown[]) => void lines.push(parts.join(' ')));
  }
  await visit(url);
  await press(device, url);
  await revoke(device, url.slice(-42, -26));
  await visit(url);
  expect(lines.filter((line) => line.includes('"route":"/g/:token"'))).toHaveLength(3);
  expect(lines.filter((line) => line.includes(url.slice(-26)))).toEqual([]);
});
