// Guest links: an address that sends one command for everybody who has it. How the owner makes it, its page, and how the
// device counts each use.
import { runInDurableObject } from 'cloudflare:test';
import { describe, expect, it } from 'vitest';
import { limitSpecs } from '../../../src/limits.ts';
import { createKey } from '../rig/authorization-callers.ts';
import { bringUp } from '../rig/clients/bridge.ts';
import { call } from '../rig/clients/client.ts';
import {
  activate,
  activateOnline,
  bridge,
  control,
  nextCommand,
  prepareOwnerAndBridge,
  owner,
  reply,
  setClock,
  sleep,
  unheard,
} from '../rig/commands.ts';
import {
  address,
  dayMs,
  eventsOf,
  inMs,
  listOf,
  make,
  makeOpen,
  press,
  revoke,
  trigger,
  visit,
} from '../rig/guest-links.ts';
import { sessionOf } from '../rig/provision.ts';
import {
  guestUsesPerMinute,
  linkUsesPerMinute,
  maxDaysOfLink,
  maxUsesOfLink,
} from '../../../src/domain/device/commands/guest-links.ts';

prepareOwnerAndBridge();

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

  it('is not done with an API key that may manage and not control, nor the other way round', async () => {
    const device = await activateOnline();
    for (const [scopes, code] of [
      [['manage'], 403],
      [['control'], 403],
      [['control', 'manage'], 200],
    ] as const) {
      const key = await createKey(owner, { scopes });
      expect([scopes, (await make(device, {}, { key })).code]).toEqual([scopes, code]);
    }
    expect(await listOf(device)).toHaveLength(1);
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

  it.each([undefined, [], { power: 1 }, { angle: 181 }, { action: 'pulse', duration: 0 }])(
    'refuses the command %j as the control route does',
    async (command) => {
      const device = await activate();
      const [refused, asControl] = [await make(device, { command }), await control(device, command)];
      expect([refused.code, refused.message]).toEqual([asControl.code, asControl.message]);
      expect(refused.code).toBe(400);
      expect(await listOf(device)).toEqual([]);
    },
  );

  it('refuses what is out of range', async () => {
    const device = await activate();
    for (const [body, problem] of [
      [{ maxUses: 0 }, 'maxUses: '],
      [{ maxUses: 1.5 }, 'maxUses: '],
      [{ maxUses: maxUsesOfLink + 1 }, 'maxUses: must be at most 1000'],
      [{ expiresAt: 'tomorrow' }, 'expiresAt: '],
      [{ expiresAt: undefined }, 'expiresAt: '],
      [{ expiresAt: inMs(0) }, 'expiresAt: must be in the future'],
      [{ expiresAt: inMs((maxDaysOfLink + 1) * dayMs) }, 'expiresAt: must be at most 30 days from now'],
    ] as const) {
      const { code, message } = await make(device, body);
      expect([code, message.slice(0, `invalid_request: ${problem}`.length)]).toEqual([
        400,
        `invalid_request: ${problem}`,
      ]);
    }
    expect((await makeOpen(device)).maxUses).toBe(maxUsesOfLink);
    // The clock of its maker may be fast.
    await makeOpen(device, { expiresAt: inMs(maxDaysOfLink * dayMs + 30_000) });
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

  it('runs one script that writes times, loads the style of the console alone, and is kept by nobody', async () => {
    const { headers, html } = await visit((await makeOpen(await activate())).url);
    const script =
      "for(const t of document.querySelectorAll('time'))" +
      "t.textContent=new Date(t.dateTime).toLocaleString('en-GB',{dateStyle:'medium',timeStyle:'short'})";
    const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(script));
    const hash = btoa(String.fromCharCode(...new Uint8Array(digest)));
    expect(headers.get('Content-Security-Policy')).toBe(
      `default-src 'none'; style-src 'self'; script-src 'sha256-${hash}'; form-action 'self'; ` +
        "base-uri 'none'; frame-ancestors 'none'",
    );
    expect(headers.get('Cache-Control')).toBe('no-store');
    expect(headers.get('Referrer-Policy')).toBe('no-referrer');
    expect(headers.get('X-Frame-Options')).toBe('DENY');
    expect(headers.get('X-Content-Type-Options')).toBe('nosniff');
    expect(headers.get('X-Robots-Tag')).toBe('noindex, nofollow');
    expect(headers.get('Access-Control-Allow-Origin')).toBeNull();
    expect(headers.get('Content-Type')).toBe('text/html; charset=UTF-8');
    const others = html
      .replace(`<script>${script}</script>`, '')
      .replace('<link rel="stylesheet" href="/console/style.css" />', '');
    expect(others).not.toMatch(/<script|<style|<img|<link|<iframe|https?:|javascript:| on\w+=/i);
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

  it("is refused where a device had too many of them in a minute; one guest uses up nobody else's", async () => {
    const device = await activateOnline();
    const links = [await makeOpen(device), await makeOpen(device), await makeOpen(device)];
    bridge.hasSubscribers = false;
    // However slow this machine is.
    setClock(Date.now());
    const useUp = async ({ url }: { url: string }) => {
      let uses = 0;
      while ((await visit(url, 'POST')).status === 503) uses += 1;
      return uses;
    };
    const uses = [];
    for (const link of links) uses.push(await useUp(link));
    expect(uses).toEqual([linkUsesPerMinute, guestUsesPerMinute - linkUsesPerMinute, 0]);
  });
});
