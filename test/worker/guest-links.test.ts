// Guest links: an address that sends one command, for whoever has it. Made and revoked by the owner, counted by the device.
import { createExecutionContext, runInDurableObject } from 'cloudflare:test';
import { env, exports } from 'cloudflare:workers';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { createApp } from '../../src/app.ts';
import { limitSpecs } from '../../src/limits.ts';
import { bringUp } from '../rig/workerd/bridge.ts';
import { call, createUser } from '../rig/workerd/client.ts';
import {
  activate,
  activateOnline,
  bridge,
  closeBridge,
  control,
  nextCommand,
  openBridge,
  owner,
  reply,
  setClock,
  signUpOwner,
  sleep,
  unheard,
  type Device,
} from '../rig/workerd/commands.ts';
import { sessionOf } from '../rig/workerd/provision.ts';

type Link = { linkId: string; url: string; maxUses: number; uses: number; state: string; lastUsedAt: string | null };
type Event = { status: string; reason: string; detail: string; address: string | null };

const dayMs = 86_400_000;
const trigger = { action: 'trigger' };
const inMs = (ms: number) => new Date(Date.now() + ms).toISOString();

beforeAll(signUpOwner);
beforeEach(openBridge);
afterEach(closeBridge);

const pathOf = ({ deviceId }: Device) => `/devices/${deviceId}/guest-links`;
const make = (device: Device, body: object = {}) =>
  call<Link>('POST', pathOf(device), {
    token: owner.token,
    body: { command: trigger, expiresAt: inMs(dayMs), ...body },
    headers: { 'CF-Connecting-IP': '198.51.100.1' },
  });
const listOf = async (device: Device) =>
  (await call<{ total: number; list: Link[] }>('GET', pathOf(device), { token: owner.token })).data.list;
const revoke = (device: Device, linkId: string) =>
  call('DELETE', `${pathOf(device)}/${linkId}`, { token: owner.token });
const eventsOf = async ({ deviceId }: Device) => {
  const { data } = await call<{ list: Event[] }>('GET', `/devices/${deviceId}/events`, { token: owner.token });
  return data.list.filter(({ status }) => status === 'guest_link');
};

async function makeOpen(device: Device, body: object = {}): Promise<Link> {
  const { code, message, data } = await make(device, body);
  if (code !== 200) throw new Error(`not made: ${message}`);
  return data;
}

const address = '203.0.113.50';

async function visit(url: string, method = 'GET', requestId?: string, from = address) {
  const body = method === 'POST' ? { body: requestId === undefined ? '' : `request=${requestId}` } : {};
  const headers = {
    'CF-Connecting-IP': from,
    ...(method === 'POST' && { 'Content-Type': 'application/x-www-form-urlencoded' }),
  };
  const response = await exports.default.fetch(new Request(url, { method, headers, ...body }));
  return { status: response.status, headers: response.headers, html: await response.text() };
}

/** Presses the button while the device answers. */
async function press(device: Device, url: string, requestId?: string) {
  const pressed = visit(url, 'POST', requestId);
  const { id, params } = await nextCommand(device);
  await bringUp(device, reply(id, 200));
  return { ...(await pressed), params };
}

describe('making a guest link', () => {
  it('shows its address once', async () => {
    const device = await activate();
    const { data } = await make(device, { maxUses: 3, expiresAt: '2026-03-01T12:00:00+02:00' }).then((refused) => {
      expect(refused).toMatchObject({ code: 400, message: 'invalid_request: expiresAt: must be in the future' });
      return make(device, { maxUses: 3 });
    });
    expect(data).toMatchObject({ command: trigger, maxUses: 3, uses: 0, state: 'open', lastUsedAt: null });
    expect(data.url).toMatch(/^https:\/\/latchwork\.test\/g\/[0-9A-Za-z]{50}$/);
    const [listed] = await listOf(device);
    expect(listed).toEqual({ ...data, url: undefined });
    expect(JSON.stringify(listed)).not.toContain(data.url.slice(-26));
  });

  it('keeps nothing of which the address could be made', async () => {
    const device = await activate();
    const { url } = await makeOpen(device);
    const rows = await runInDurableObject(sessionOf(device.deviceId), (_, { storage }) => {
      const tables = storage.sql
        .exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table'")
        .toArray();
      return JSON.stringify(
        tables
          .filter(({ name }) => !name.startsWith('_') && !name.startsWith('sqlite'))
          .map(({ name }) => storage.sql.exec(`SELECT * FROM ${name}`).toArray()),
      );
    });
    expect(rows).toContain('link_made');
    expect(rows).not.toContain(url.slice(-26));
  });

  it.each([
    undefined,
    null,
    [],
    {},
    { power: 1 },
    { action: 'open' },
    { action: 'toggle', angle: 5 },
    { angle: 181 },
    { action: 'pulse', duration: 0 },
    { switch: 'yes' },
  ])('refuses the command %j as the control route does', async (command) => {
    const device = await activate();
    const [refused, asControl] = [await make(device, { command }), await control(device, command)];
    expect([refused.code, refused.message]).toEqual([asControl.code, asControl.message]);
    expect(refused.code).toBe(400);
    expect(await listOf(device)).toEqual([]);
  });

  it('refuses what is out of range', async () => {
    const device = await activate();
    const { guestLinkUses, guestLinkDays } = limitSpecs;
    for (const [body, problem] of [
      [{ maxUses: 0 }, 'maxUses: '],
      [{ maxUses: 1.5 }, 'maxUses: '],
      [{ maxUses: guestLinkUses.default + 1 }, 'maxUses: must be at most 1000'],
      [{ expiresAt: 'tomorrow' }, 'expiresAt: '],
      [{ expiresAt: undefined }, 'expiresAt: '],
      [{ expiresAt: inMs(0) }, 'expiresAt: must be in the future'],
      [{ expiresAt: inMs((guestLinkDays.default + 1) * dayMs) }, 'expiresAt: must be at most 30 days from now'],
    ] as const) {
      const { code, message } = await make(device, body);
      expect([code, message.slice(0, `invalid_request: ${problem}`.length)]).toEqual([
        400,
        `invalid_request: ${problem}`,
      ]);
    }
    expect((await makeOpen(device)).maxUses).toBe(guestLinkUses.default);
  });

  it('counts the open ones of a device', async () => {
    const device = await activate();
    for (let made = 0; made < limitSpecs.guestLinksPerDevice.default; made++) await makeOpen(device);
    expect(await make(device)).toMatchObject({ code: 400, message: 'too_many_guest_links' });
    const [newest] = await listOf(device);
    await revoke(device, newest?.linkId ?? '');
    expect(await make(device)).toMatchObject({ code: 200 });
  });

  it('is refused for a product that only reports, and for a device without a session', async () => {
    expect(await make(await activate('readonly'))).toMatchObject({ code: 403, message: 'forbidden' });
    const nowhere = { deviceId: 'dev_00000000', productKey: 'x' };
    expect(await make(nowhere)).toMatchObject({ code: 404, message: 'device_not_found' });
    const device = await activate();
    const body = { serials: ['SN-new'] };
    await call('POST', `/products/${device.productKey}/serials`, { token: owner.token, body });
    const { data } = await call<{ list: { deviceId: string; status: string }[] }>('GET', '/devices?status=inactive', {
      token: owner.token,
    });
    const { deviceId } = data.list[0]!;
    expect(await make({ ...device, deviceId })).toMatchObject({ code: 400, message: 'device_not_activated' });
  });
});

describe('the page of a guest link', () => {
  it('does nothing when it is looked at, by whatever means', async () => {
    const device = await activateOnline();
    const { url } = await makeOpen(device, { maxUses: 1 });
    for (const method of ['GET', 'HEAD', 'GET', 'OPTIONS', 'PUT']) await visit(url, method);
    expect(await visit(url, 'HEAD')).toMatchObject({ status: 200, html: '' });
    expect(await listOf(device)).toMatchObject([{ uses: 0, state: 'open' }]);
    expect(unheard(device)).toEqual([]);
    expect((await eventsOf(device)).map(({ reason }) => reason)).toEqual(['link_made']);
  });

  it('runs nothing, loads nothing, and is kept by nobody', async () => {
    const { headers, html } = await visit((await makeOpen(await activate())).url);
    const nonce = /<style nonce="([^"]+)">/.exec(html)?.[1] ?? 'none';
    expect(headers.get('Content-Security-Policy')).toBe(
      `default-src 'none'; style-src 'nonce-${nonce}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
    );
    expect(headers.get('Cache-Control')).toBe('no-store');
    expect(headers.get('Referrer-Policy')).toBe('no-referrer');
    expect(headers.get('X-Frame-Options')).toBe('DENY');
    expect(headers.get('X-Content-Type-Options')).toBe('nosniff');
    expect(headers.get('X-Robots-Tag')).toBe('noindex, nofollow');
    expect(headers.get('Access-Control-Allow-Origin')).toBeNull();
    expect(headers.get('Content-Type')).toBe('text/html; charset=UTF-8');
    expect(html).not.toMatch(/<script|<img|<link|<iframe|https?:|javascript:| on\w+=/i);
    expect(html.match(/<button>/g)).toHaveLength(1);
  });

  it('shows the name of the device as text', async () => {
    const device = await activate();
    const name = '<img src=x onerror=alert(1)>"\'&';
    await call('PATCH', `/devices/${device.deviceId}`, { token: owner.token, body: { name } });
    const { html } = await visit((await makeOpen(device)).url);
    expect(html).not.toContain('<img');
    expect(html).toContain('&lt;img src=x onerror=alert(1)&gt;');
  });

  it.each([
    [{ action: 'toggle' }, 'Toggle'],
    [{ action: 'toggle', position: 'middle' }, 'Switch to middle'],
    [{ action: 'pulse' }, 'Pulse'],
    [{ action: 'pulse', duration: 500 }, 'Pulse of 500 ms'],
    [{ action: 'trigger' }, 'Trigger'],
    [{ switch: false }, 'Switch off'],
    [{ switch: true, angle: 90 }, 'Switch on, Turn to 90°'],
    [{ angle: 0 }, 'Turn to 0°'],
  ])('names the command %j', async (command, label) => {
    const { html } = await visit((await makeOpen(await activate(), { command })).url);
    expect(html).toContain(`<button>${label}</button>`);
  });

  it('says that the device is offline', async () => {
    const online = await visit((await makeOpen(await activateOnline())).url);
    const offline = await visit((await makeOpen(await activate())).url);
    expect([online, offline].map(({ html }) => html.includes('offline at the moment'))).toEqual([false, true]);
  });
});

describe('a use', () => {
  it('sends the command, counts, and stands in the events with time and address', async () => {
    const device = await activateOnline();
    const { url, linkId } = await makeOpen(device, { command: { action: 'toggle', position: 'up' }, maxUses: 2 });
    const pressed = await press(device, url);
    expect(pressed).toMatchObject({ status: 200, params: { action: 'toggle', position: 'up' } });
    expect(pressed.html).toContain('<h2>Done</h2>');
    expect(pressed.headers.get('Cache-Control')).toBe('no-store');
    expect(await listOf(device)).toMatchObject([{ uses: 1, state: 'open', lastUsedAt: expect.any(String) as string }]);
    expect(await eventsOf(device)).toMatchObject([
      { reason: 'link_used', detail: linkId, address },
      { reason: 'link_made', detail: linkId, address: '198.51.100.1' },
    ]);
  });

  it('says that the device answered with an error', async () => {
    const device = await activateOnline();
    const { url } = await makeOpen(device);
    const pressed = visit(url, 'POST');
    await bringUp(device, reply((await nextCommand(device)).id, 500));
    expect((await pressed).html).toContain('<h2>Not done</h2>');
  });

  it('is one however often the same page is sent, also after it was the last', async () => {
    const device = await activateOnline();
    const { url } = await makeOpen(device, { maxUses: 1 });
    const { html } = await visit(url);
    const requestId = /name="request" value="([0-9a-z]{16})"/.exec(html)?.[1];
    const twice = [visit(url, 'POST', requestId), visit(url, 'POST', requestId)];
    await bringUp(device, reply((await nextCommand(device)).id, 200));
    for (const answer of await Promise.all(twice)) expect(answer.html).toContain('<h2>Done</h2>');
    await sleep(device);
    expect((await visit(url, 'POST', requestId)).html).toContain('<h2>Done</h2>');
    expect(unheard(device)).toEqual([]);
    expect(await listOf(device)).toMatchObject([{ uses: 1, state: 'used_up' }]);
    const other = await visit(url, 'POST', '0'.repeat(16));
    expect(other).toMatchObject({ status: 410 });
    expect(other.html).toContain('This link was used as often as it may be.');
    expect(await visit(url)).toMatchObject({ status: 410 });
  });

  it('that is the last one is taken by exactly one of many at the same moment', async () => {
    const device = await activateOnline();
    const { url } = await makeOpen(device, { maxUses: 1 });
    const attempts = Array.from({ length: 8 }, (_, index) => visit(url, 'POST', String(index).padStart(16, '0')));
    await bringUp(device, reply((await nextCommand(device)).id, 200));
    const statuses = (await Promise.all(attempts)).map(({ status }) => status);
    expect(statuses.toSorted()).toEqual([200, 410, 410, 410, 410, 410, 410, 410]);
    expect(unheard(device)).toEqual([]);
    expect(await listOf(device)).toMatchObject([{ uses: 1, state: 'used_up' }]);
    expect((await eventsOf(device)).filter(({ reason }) => reason === 'link_used')).toHaveLength(1);
  });

  it('that reaches nobody does not count, and the page says so', async () => {
    const device = await activate();
    const { url } = await makeOpen(device, { maxUses: 1 });
    bridge.hasSubscribers = false;
    const offline = await visit(url, 'POST');
    expect(offline).toMatchObject({ status: 503 });
    expect(offline.html).toContain('is not connected. Nothing was done, and this use does not count.');
    await nextCommand(device);
    bridge.hasSubscribers = 'refused';
    const refused = await visit(url, 'POST');
    expect(refused).toMatchObject({ status: 500 });
    expect(refused.html).toContain('The device cannot be reached at the moment. This use does not count.');
    expect(await listOf(device)).toMatchObject([{ uses: 0, state: 'open' }]);
    expect((await eventsOf(device)).map(({ reason }) => reason)).toEqual([
      'link_undelivered',
      'link_used',
      'link_undelivered',
      'link_used',
      'link_made',
    ]);
    bridge.hasSubscribers = true;
    expect((await press(device, url)).html).toContain('<h2>Done</h2>');
  });

  it('counts where nobody can say whether the broker has the command', async () => {
    const device = await activate();
    const { url } = await makeOpen(device, { maxUses: 1 });
    bridge.hasSubscribers = 'cancelled';
    expect((await visit(url, 'POST')).html).toContain('It is not known whether the command reached the device.');
    expect(await listOf(device)).toMatchObject([{ uses: 1, state: 'used_up' }]);
  });

  it('is refused where a device had too many of them in a minute', async () => {
    const device = await activateOnline();
    const { url } = await makeOpen(device);
    bridge.hasSubscribers = false;
    // However slow this machine is.
    setClock(Date.now());
    const statuses = [];
    for (let use = 0; use <= limitSpecs.deviceGuestUsesPerMinute.default; use++) {
      statuses.push((await visit(url, 'POST')).status);
    }
    expect(statuses.slice(0, -1).every((status) => status === 503)).toBe(true);
    expect(statuses.at(-1)).toBe(429);
  });
});

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
    const uses = new Map<string, number>();
    const GUEST_FAILURE_LIMIT: RateLimit = {
      limit: ({ key }) => {
        uses.set(key, (uses.get(key) ?? 0) + 1);
        return Promise.resolve({ success: (uses.get(key) ?? 0) <= 3 });
      },
    };
    const GUEST_LIMIT: RateLimit = { limit: ({ key }) => Promise.resolve({ success: key !== '198.51.100.99' }) };
    const limited = { ...env, RATE_LIMITS: 'production', LIMITS: 'refusalDelayMs=0', GUEST_FAILURE_LIMIT, GUEST_LIMIT };
    const from = async (address: string, target: string) => {
      const request = new Request(target, { headers: { 'CF-Connecting-IP': address } });
      return createApp().fetch(request, limited, createExecutionContext());
    };
    const statuses = [];
    for (let guess = 0; guess < 5; guess++) {
      statuses.push((await from('198.51.100.77', `https://latchwork.test/g/${'0'.repeat(50)}`)).status);
    }
    expect(statuses).toEqual([404, 404, 404, 404, 429]);
    const blocked = await from('198.51.100.77', url);
    expect(blocked.status).toBe(429);
    expect(Number(blocked.headers.get('Retry-After'))).toBeGreaterThan(50);
    expect((await from('198.51.100.78', url)).status).toBe(200);
    expect((await from('198.51.100.99', url)).status).toBe(429);
  });
});

describe('the log', () => {
  it('names the route of a guest page and never its token', async () => {
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
});
