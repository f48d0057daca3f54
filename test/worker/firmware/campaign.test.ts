// Campaigns: whom a wave offers firmware to, when the next one begins, and what holds it up. How the update of one device ends:
// firmware.test.ts.
import { evictDurableObject, runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { expect, it, vi } from 'vitest';
import { dayMs, hourMs } from '../../../src/domain/time.ts';
import type { CampaignView } from '../../../src/protocol/http/firmware.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { bringUp } from '../rig/clients/bridge.ts';
import { call } from '../rig/clients/client.ts';
import { bridge, connect, disconnect, owner, prepareOwnerAndBridge, setClock, type Device } from '../rig/commands.ts';
import * as rig from '../rig/firmware.ts';
import { sessionOf } from '../rig/provision.ts';

prepareOwnerAndBridge();

const isPaused = ({ state }: CampaignView) => state === 'paused';
const isOffered = (device: Device) => bridge.waitingFor(device, topicActions.otaUpgrade).length > 0;
const message = async (answer: Promise<{ message: string }>) => (await answer).message;

/** A product with firmware 1.2.0, devices that run 1.0.0, and a campaign for them. */
async function start(count: number, wavesOf: (devices: Device[]) => object[], more: object = {}) {
  const { productKey, key } = await rig.prepareFirmware('1.2.0', rig.imageOf(100));
  const devices = await rig.makeDevices(productKey, count);
  const { campaignId } = (await rig.startCampaign(productKey, '1.2.0', wavesOf(devices), more)).data;
  const change = (to: string) => rig.ofProduct('POST', productKey, `campaigns/${campaignId}/${to}`);
  const until = (isThere: (view: CampaignView) => boolean) => rig.untilCampaign(productKey, campaignId, isThere);
  return { productKey, key, devices, campaignId, change, until, read: () => rig.readCampaign(productKey, campaignId) };
}
const each = (devices: Device[]) => devices.map((device) => rig.named([device]));
const stateOf = ({ list }: CampaignView, { deviceId }: Device) => list.find((one) => one.deviceId === deviceId)?.state;

/** A round at that time. Access tokens do not live so long. */
async function ringAt(campaignId: string, atMs: number): Promise<void> {
  setClock(atMs);
  await rig.ringCampaign(campaignId);
  vi.restoreAllMocks();
}

it('goes wave by wave, from named devices to all', async () => {
  const waves = (devices: Device[]) => [
    rig.named(devices.slice(0, 2)),
    { percent: 1 },
    { percent: 10 },
    { percent: 100 },
  ];
  const { devices, until } = await start(60, waves);
  await until(({ waves: [first] }) => first?.outcomes.offered === 2);
  const take = async (some: Device[]) => {
    for (const device of some) await rig.takeUpdate(device);
  };
  // An upgrade is on its way when the campaign knows of the offer.
  const untilOffered = (some: Device[]) => expect.poll(() => devices.filter(isOffered)).toEqual(some);
  await untilOffered(devices.slice(0, 2));
  await take(devices.slice(0, 2));
  const third = await until(({ waves: [, , wave] }) => wave?.outcomes.offered === 4);
  expect(third).toMatchObject({ wave: 2, waves: [{ outcomes: { proved: 2 } }, { devices: 0 }, { devices: 4 }, {}] });
  await untilOffered(devices.slice(2, 6));
  await take(devices.slice(2, 6));
  await until(({ waves: [, , , last], total }) => last?.outcomes.offered === 54 && total === 60);
  await untilOffered(devices.slice(6));
});

it('pauses if an image is bad, before the next wave; resumed, it does not pause for the same failures', async () => {
  const { devices, change, until, read } = await start(4, (all) => [rig.named(all.slice(0, 2)), ...each(all.slice(2))]);
  await until(({ waves: [first] }) => first?.outcomes.offered === 2);
  for (const device of devices.slice(0, 2)) await rig.takeUpdate(device, '1.0.0');
  const paused = await until(isPaused);
  expect(paused).toMatchObject({ pausedBecause: 'failures', wave: 0 });
  expect(paused.waves[0]?.outcomes).toMatchObject({ rolled_back: expect.any(Number) as number });
  expect(devices.slice(2).filter(isOffered)).toEqual([]);
  await change('resume');
  const second = await until(({ waves: [, wave] }) => wave?.outcomes.offered === 1);
  expect(second).toMatchObject({ state: 'running', pausedBecause: null, wave: 1 });
  await rig.takeUpdate(devices[2]!, '1.0.0');
  expect(await until(isPaused)).toMatchObject({ pausedBecause: 'failures', wave: 1 });
  expect(isOffered(devices[3]!)).toBe(false);
  expect(stateOf(await read(), devices[3]!)).toBeUndefined();
});

it('pauses if updated devices stay away, and not for those that restart', async () => {
  const { devices, campaignId, until, read } = await start(1, each, { waitSeconds: 600 });
  const [device] = devices as [Device];
  await rig.ringCampaign(campaignId);
  const { url } = await rig.nextUpgrade(device);
  await (await rig.fetchImage(url)).arrayBuffer();
  await bringUp(device, rig.progress('restarting'));
  await disconnect(device);
  await ringAt(campaignId, Date.now() + 10_000);
  expect(await read()).toMatchObject({ state: 'running', waves: [{ outcomes: { restarting: 1 }, away: 0 }] });
  const backAtMs = Date.now();
  await connect(device, backAtMs);
  await bringUp(device, rig.inform('1.2.0'));
  await until(({ waves: [wave] }) => wave?.outcomes.proved === 1);
  await disconnect(device, backAtMs);
  await ringAt(campaignId, backAtMs + 90_000);
  expect(await read()).toMatchObject({ state: 'paused', pausedBecause: 'away', waves: [{ away: 1 }] });
});

it('is the only one of its product; a newer one supersedes what it has offered', async () => {
  const { productKey, key, devices, campaignId, change } = await start(1, each);
  const [device] = devices as [Device];
  await rig.addFirmware(productKey, key, '1.3.0', rig.imageOf(200));
  await rig.putImage(productKey, '1.3.0', rig.imageOf(200));
  const begin = () => rig.startCampaign(productKey, '1.3.0', each(devices));
  await rig.ringCampaign(campaignId);
  const former = await rig.nextUpgrade(device);
  expect(await message(begin())).toBe('campaign_open');
  await change('pause');
  expect(await message(begin())).toBe('campaign_open');
  await change('stop');
  const { data } = await begin();
  await rig.untilCampaign(productKey, data.campaignId, (view) => stateOf(view, device) === 'offered');
  expect(await rig.firmwareOf(device)).toMatchObject({ update: { version: '1.3.0', state: 'offered' } });
  expect((await rig.fetchImage(former.url)).status).toBe(410);
  await rig.ringCampaign(campaignId);
  expect(stateOf(await rig.readCampaign(productKey, campaignId), device)).toBe('superseded');
});

it('offers within its times alone', async () => {
  const today = Math.floor(Date.now() / dayMs) * dayMs;
  const [from, to] = [today + 2 * dayMs, today + 5 * dayMs].map((atMs) => new Date(atMs).toISOString());
  const window = { begin: '23:00', end: '02:00' };
  const { devices, campaignId, read } = await start(2, each, { from, to, window });
  const [first, second] = devices as [Device, Device];
  for (const atMs of [dayMs + 23.5 * hourMs, 2 * dayMs + 2 * hourMs, 2 * dayMs + 22 * hourMs]) {
    await ringAt(campaignId, today + atMs);
    expect(stateOf(await read(), first)).toBe('waiting');
  }
  await ringAt(campaignId, today + 3 * dayMs + hourMs);
  expect(stateOf(await read(), first)).toBe('offered');
  await ringAt(campaignId, today + 5 * dayMs);
  const ended = await read();
  expect([ended.state, stateOf(ended, first), stateOf(ended, second)]).toEqual(['done', 'offered', undefined]);
});

it('is held up by no device that does not answer, and loses nothing if it ends in the midst of a round', async () => {
  const { devices, campaignId, read } = await start(3, (all) => [rig.named(all)], {
    from: new Date(Date.now() + hourMs).toISOString(),
  });
  const [stuck, ...others] = devices as [Device, Device, Device];
  const block = (_: unknown, ctx: DurableObjectState) => ctx.blockConcurrencyWhile(() => scheduler.wait(3_000));
  const blocked = runInDurableObject(sessionOf(stuck.deviceId), block);
  const states = async () => {
    const view = await read();
    return devices.map((device) => stateOf(view, device));
  };
  while ((await states())[2] !== 'offered') await ringAt(campaignId, Date.now() + 2 * hourMs);
  expect(await states()).toEqual(['waiting', 'offered', 'offered']);
  expect(others.map(isOffered)).toEqual([true, true]);
  setClock(Date.now() + 2 * hourMs);
  const round = rig.ringCampaign(campaignId).catch(() => false);
  await evictDurableObject(env.CAMPAIGN.getByName(campaignId));
  await Promise.all([round, blocked]);
  await rig.ringCampaign(campaignId);
  vi.restoreAllMocks();
  expect(await states()).toEqual(['offered', 'offered', 'offered']);
});

it('goes on without a device that is away, once another one has proved it', async () => {
  const { productKey } = await rig.prepareFirmware('1.2.0', rig.imageOf(100));
  const [absent, present, last] = (await rig.makeDevices(productKey, 3)) as [Device, Device, Device];
  await disconnect(absent);
  const waves = [rig.named([absent, present]), rig.named([last])];
  const { campaignId } = (await rig.startCampaign(productKey, '1.2.0', waves)).data;
  const until = (isThere: (view: CampaignView) => boolean) => rig.untilCampaign(productKey, campaignId, isThere);
  await until(({ waves: [first] }) => first?.outcomes.offered === 2);
  expect(await rig.readCampaign(productKey, campaignId)).toMatchObject({ wave: 0, waves: [{ absent: 1 }, {}] });
  await rig.takeUpdate(present);
  await until(({ waves: [, second] }) => second?.outcomes.offered === 1);
  await rig.takeUpdate(last);
  const { list } = await until(({ state }) => state === 'done');
  expect(list.map(({ state }) => state)).toEqual(['offered', 'proved', 'proved']);
});

it('that pauses itself while D1 is away tells D1 later', async () => {
  const { productKey, devices, until } = await start(2, each);
  const [device] = devices as [Device];
  const inDatabase = async () =>
    (await rig.ofProduct<{ list: { state: string }[] }>('GET', productKey, 'campaigns')).data.list[0]?.state;
  await until((view) => stateOf(view, device) === 'offered');
  await rig.nextUpgrade(device);
  await env.DB.exec("create trigger outage before update on campaigns begin select raise(abort, 'away'); end");
  await bringUp(device, rig.progress('failed'));
  await until(isPaused);
  expect(await inDatabase()).toBe('running');
  await env.DB.exec('drop trigger outage');
  const { campaignId } = await until(isPaused);
  await rig.ringCampaign(campaignId);
  expect(await inDatabase()).toBe('paused');
});

it('begins small, and grows', async () => {
  const { productKey } = await rig.prepareFirmware();
  const begin = (...waves: object[]) => message(rig.startCampaign(productKey, '1.2.0', waves));
  const small = { percent: 1 };
  expect(await begin({ percent: 2 })).toMatch(/^invalid_request: waves: must begin with named devices/);
  expect(await begin({ percent: 100 }, small)).toMatch(/^invalid_request: waves/);
  expect(await begin(small, { percent: 50 }, { percent: 50 })).toBe('invalid_request: waves: must grow');
  const [foreign] = (await start(1, each)).devices as [Device];
  const is = `${foreign.deviceId} is no device of the product`;
  expect(await begin(rig.named([foreign]), { percent: 100 })).toBe(`invalid_request: waves: ${is}`);
  expect(await begin(small, { percent: 50 }, { percent: 100 })).toBe('success');
});

it('does not wait for devices whose owners put the update off', async () => {
  const { devices, until } = await start(2, each);
  const [first, second] = devices as [Device, Device];
  await until((view) => stateOf(view, first) === 'offered');
  await call('POST', `/devices/${first.deviceId}/firmware/postpone`, { token: owner.token });
  const view = await until((one) => stateOf(one, second) === 'offered');
  expect(view.waves[0]?.outcomes).toEqual({ postponed: 1 });
});
