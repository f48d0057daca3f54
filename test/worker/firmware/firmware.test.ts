// Firmware over the air through the Worker, its R2 and its objects: what a maker may add, what a device may download, and how an update
// ends. When it ends in which way is decided in test/unit/device/firmware.test.ts.
import { env } from 'cloudflare:workers';
import { describe, expect, it } from 'vitest';
import { runScheduledJobs } from '../../../src/scheduled.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { bringUp } from '../rig/clients/bridge.ts';
import { call, createUser, makeProduct } from '../rig/clients/client.ts';
import {
  bridge,
  connect,
  control,
  disconnect,
  owner,
  prepareOwnerAndBridge,
  setClock,
  type Device,
} from '../rig/commands.ts';
import * as rig from '../rig/firmware.ts';
import { callWith } from '../rig/limited.ts';

const minuteMs = 60_000;

prepareOwnerAndBridge();

const message = async (answer: Promise<{ message: string }>) => (await answer).message;
const imagesOf = async (productKey: string) => {
  const { id } = (await env.DB.prepare('select id from products where product_key = ?')
    .bind(productKey)
    .first<{ id: number }>())!;
  return (await env.FIRMWARE.list({ prefix: `${id}/` })).objects.length;
};
const stateOf = async (device: Device) => (await rig.firmwareOf(device)).update?.state;

/** A device that is offered 1.2.0. */
async function offered(image = rig.imageOf(1_000), more: object = {}) {
  const { productKey, ...prepared } = await rig.prepareFirmware('1.2.0', image, more);
  const [device] = (await rig.makeDevices(productKey, 1)) as [Device];
  const { data } = await rig.startCampaign(productKey, '1.2.0', [rig.named([device])]);
  await rig.ringCampaign(data.campaignId);
  return { ...prepared, productKey, device, upgrade: await rig.nextUpgrade(device), ...data };
}

describe('keys and firmware', () => {
  it('takes a manifest that a key of the product signed, of both algorithms, and no other', async () => {
    const image = rig.imageOf(100);
    const [productKey, other] = [await makeProduct(owner), await makeProduct(owner)];
    const [p256, ed25519, stranger] = [await rig.makeKey(), await rig.makeKey('ed25519'), await rig.makeKey()];
    for (const { pem } of [p256, ed25519]) {
      expect(await message(rig.ofProduct('POST', productKey, 'firmware-keys', { publicKey: pem }))).toBe('success');
    }
    expect(await message(rig.addFirmware(productKey, p256, '1.0.0', image))).toBe('success');
    expect(await message(rig.addFirmware(productKey, ed25519, '1.0.1', image))).toBe('success');
    expect(await message(rig.addFirmware(productKey, stranger, '1.0.2', image))).toMatch(
      /^invalid_firmware: signature/,
    );
    const forOther = await rig.manifestOf(other, '1.0.2', image);
    const signed = { manifest: forOther, signature: await p256.sign(forOther) };
    expect(await message(rig.ofProduct('POST', productKey, 'firmware', signed))).toMatch(/^invalid_firmware: manifest/);
    const changed = { ...signed, manifest: forOther.replace(other, productKey) };
    expect(await message(rig.ofProduct('POST', productKey, 'firmware', changed))).toMatch(
      /^invalid_firmware: signature/,
    );
    const longer = { manifest: await rig.manifestOf(productKey, '1.0.2', image), signature: `${'A'.repeat(87)}=` };
    expect(await message(rig.ofProduct('POST', productKey, 'firmware', longer))).toMatch(/^invalid_request: signature/);
    expect(await message(rig.addFirmware(productKey, p256, '1.0.0', image))).toBe('firmware_exists');
    expect(await message(rig.addFirmware(productKey, p256, 'newest', image))).toMatch(
      /^invalid_request: manifest.version/,
    );
    const keys = await rig.ofProduct<{ list: { keyId: string }[] }>('GET', productKey, 'firmware-keys');
    expect(keys.data.list).toMatchObject([{ algorithm: 'p256' }, { algorithm: 'ed25519' }]);
    await rig.ofProduct('DELETE', productKey, `firmware-keys/${keys.data.list[0]?.keyId}`);
    expect(await message(rig.addFirmware(productKey, p256, '1.0.3', image))).toMatch(/^invalid_firmware: signature/);
  });

  it('takes four keys, and only public keys', async () => {
    const productKey = await makeProduct(owner);
    const add = (publicKey: string) => message(rig.ofProduct('POST', productKey, 'firmware-keys', { publicKey }));
    const keys = await Promise.all(Array.from({ length: 5 }, () => rig.makeKey('ed25519')));
    for (const { pem } of keys.slice(0, 4)) expect(await add(pem)).toBe('success');
    expect(await add(keys[0]!.pem)).toBe('success');
    expect(await add(keys[4]!.pem)).toBe('too_many_firmware_keys');
    const offCurve = `MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE${'AAAA'.repeat(21)}AA==`;
    for (const text of ['AAAA', 'A'.repeat(33), '='.repeat(40), offCurve]) {
      const pem = `-----BEGIN PUBLIC KEY-----\n${text}\n-----END PUBLIC KEY-----`;
      expect(await add(pem)).toMatch(/^invalid_request: publicKey/);
    }
  });

  it('stores an image only as its manifest describes it', async () => {
    const [productKey, key, image] = [await makeProduct(owner), await rig.makeKey(), rig.imageOf(5_000)];
    await rig.ofProduct('POST', productKey, 'firmware-keys', { publicKey: key.pem });
    await rig.addFirmware(productKey, key, '2', image);
    const wave = [{ percent: 1 }];
    expect(await message(rig.startCampaign(productKey, '2', wave))).toBe('invalid_firmware: image: not uploaded');
    expect(await message(rig.putImage(productKey, '2', image.slice(1)))).toMatch(
      /^invalid_firmware: image: has not the size/,
    );
    const flipped = image.with(77, 1);
    expect(await message(rig.putImage(productKey, '2', flipped))).toMatch(
      /^invalid_firmware: image: has not the SHA-256/,
    );
    expect(await message(rig.putImage(productKey, '3', image))).toBe('not_found');
    expect(await rig.putImage(productKey, '2', image)).toMatchObject({
      data: { version: '2', manifest: { size: 5_000 } },
    });
    // Without devices it is over once it has waited.
    const { data } = await rig.startCampaign(productKey, '2', wave, { waitSeconds: 600 });
    expect(await message(rig.ofProduct('DELETE', productKey, 'firmware/2'))).toBe('firmware_in_use');
    await rig.ofProduct('POST', productKey, `campaigns/${data.campaignId}/stop`);
    expect(await message(rig.ofProduct('DELETE', productKey, 'firmware/2'))).toBe('success');
    expect(await imagesOf(productKey)).toBe(0);
  });

  it('take an image later if the bucket is away', async () => {
    const { productKey } = await rig.prepareFirmware('1.2.0', rig.imageOf(10));
    const lost = () => Promise.reject(new Error('Network connection lost.'));
    const FIRMWARE = { put: lost, head: lost };
    const headers = { 'Content-Length': '10' };
    const path = `/products/${productKey}/firmware/1.2.0/image`;
    const options = { token: owner.token, body: 'ten bytes!', headers };
    expect(await callWith({ FIRMWARE }, 'PUT', path, options)).toMatchObject({ code: 503, message: 'unavailable' });
    expect(await imagesOf(productKey)).toBe(1);
  });

  it('go with their product, within a minute', async () => {
    const { productKey } = await rig.prepareFirmware();
    expect(await imagesOf(productKey)).toBe(1);
    expect(await message(call('DELETE', `/products/${productKey}`, { token: owner.token }))).toBe('success');
    await runScheduledJobs(env);
    expect(await imagesOf(productKey)).toBe(0);
    for (const table of ['firmware', 'firmware_keys']) {
      const left = `select count(*) as left from ${table} where product_id = (select id from products where product_key = ?)`;
      expect(await env.DB.prepare(left).bind(productKey).first('left')).toBe(0);
    }
  });

  it('lets no other body be longer, where a product is named image', async () => {
    await call('POST', '/products', { token: owner.token, body: { productKey: 'image', name: 'Image' } });
    const change = (name: string) => message(call('PUT', '/products/image', { token: owner.token, body: { name } }));
    expect(await change('x'.repeat(70_000))).toMatch(/^invalid_request: body/);
    expect(await change('Camera')).toBe('success');
  });

  it('are nobody else’s', async () => {
    const { productKey, image } = await rig.prepareFirmware();
    const { token } = await createUser();
    const ask = (method: string, path: string, body?: object) =>
      message(rig.ofProduct(method, productKey, path, body, token));
    expect(await ask('GET', 'firmware')).toBe('forbidden');
    expect(await ask('GET', 'campaigns')).toBe('forbidden');
    expect(await ask('DELETE', 'firmware/1.2.0')).toBe('forbidden');
    expect(await ask('POST', 'campaigns', { version: '1.2.0', waves: [{ percent: 1 }] })).toBe('forbidden');
    expect(await message(rig.putImage(productKey, '1.2.0', image, token))).toBe('forbidden');
  });
});

describe('an image', () => {
  it('comes in exact ranges, never whole in place of a part', async () => {
    const { upgrade, image } = await offered();
    const { hash, size, url } = upgrade;
    expect(upgrade).toMatchObject({ version: '1.2.0', size: 1_000 });
    const [manifest, signature] = (await (await rig.fetchImage(`${url}/manifest`)).text()).split('\n');
    const { sha256, ...described } = JSON.parse(manifest!) as { sha256: string };
    expect(described).toMatchObject({ version: '1.2.0', size });
    expect(sha256).toContain(hash);
    expect(signature).toHaveLength(88);
    const etag = `"${sha256}"`;
    const ranges: [string, number, number][] = [
      ['bytes=0-99', 0, 100],
      ['bytes=900-', 900, 1_000],
      ['bytes=-10', 990, 1_000],
      ['bytes=990-5000', 990, 1_000],
      ['bytes=999-999', 999, 1_000],
    ];
    for (const [range, begin, end] of ranges) {
      const answer = await rig.fetchImage(url, { Range: range, 'If-Range': etag });
      expect(answer.status).toBe(206);
      expect(answer.headers.get('Content-Range')).toBe(`bytes ${begin}-${end - 1}/1000`);
      expect(answer.headers.get('ETag')).toBe(etag);
      expect(answer.headers.get('Content-Length')).toBe(String(end - begin));
      expect(new Uint8Array(await answer.arrayBuffer())).toEqual(image.slice(begin, end));
    }
    for (const range of ['bytes=1000-', 'bytes=-0', 'bytes=5-4', 'bytes=0-1,5-6', 'items=0-1', 'bytes=', 'bytes=a-b']) {
      const answer = await rig.fetchImage(url, { Range: range });
      expect([range, answer.status, answer.headers.get('Content-Range')]).toEqual([range, 416, 'bytes */1000']);
    }
    expect((await rig.fetchImage(url, { Range: 'bytes=0-9', 'If-Range': '"another"' })).status).toBe(412);
    const whole = await rig.fetchImage(url);
    expect([whole.status, new Uint8Array(await whole.arrayBuffer())]).toEqual([200, image]);
  });

  it('is for the device of its address alone, while its update is open', async () => {
    const { upgrade, device, productKey } = await offered();
    const token = upgrade.url.slice('/f/'.length);
    const [other] = (await rig.makeDevices(productKey, 1)) as [Device];
    const forOther = other.deviceId.slice('dev_'.length) + token.slice(8);
    expect((await rig.fetchImage(`/f/${forOther}`)).status).toBe(404);
    expect((await rig.fetchImage(`/f/${token.slice(0, -1)}x`)).status).toBe(404);
    await rig.fetchImage(upgrade.url);
    await bringUp(device, rig.progress('failed', { error: 'E12: flash!' }));
    expect(await rig.firmwareOf(device)).toMatchObject({ update: { state: 'failed', error: 'E12: flash!' } });
    expect((await rig.fetchImage(upgrade.url)).status).toBe(410);
  });

  it('comes over MQTT in packets of at most 256 bytes', async () => {
    const { upgrade, device, image } = await offered(rig.imageOf(500));
    type Part = { offset: number; data: string };
    const next = async () => {
      const { topic, payload, body } = await bridge.nextFor(device, topicActions.otaData);
      expect(topic.length + payload.length + 9).toBeLessThanOrEqual(256);
      return body as Part;
    };
    const ask = (payload: object) => bringUp(device, { action: topicActions.otaGet, payload });
    const join = (parts: Part[]) => Uint8Array.from(parts.flatMap(({ data }) => [...Uint8Array.fromBase64(data)]));
    await ask({ offset: 100, length: 600 });
    const parts: Part[] = [];
    for (let at = 100; at < image.length; at += 75) parts.push(await next());
    expect(parts.map(({ offset }) => offset)).toEqual([100, 175, 250, 325, 400, 475]);
    expect(join(parts)).toEqual(image.slice(100));
    expect(await stateOf(device)).toBe('downloaded');
    await ask({ offset: 0, length: 60, manifest: true });
    const manifest = await (await rig.fetchImage(`${upgrade.url}/manifest`)).text();
    expect(new TextDecoder().decode(join([await next()]))).toBe(manifest.slice(0, 60));
    await ask({ offset: 500, length: 10 });
    expect(await next()).toEqual({ offset: 500, error: 'range' });
    expect(await stateOf(device)).toBe('downloaded');
    await bringUp(device, rig.progress('failed'));
    await ask({ offset: 0, length: 10 });
    expect(await next()).toEqual({ offset: 0, error: 'gone' });
  });

  it('stops at the next range when the campaign is paused, and for good when it is stopped', async () => {
    const { upgrade, productKey, campaignId, device } = await offered();
    const change = (to: string) => rig.ofProduct('POST', productKey, `campaigns/${campaignId}/${to}`);
    const range = async () => (await rig.fetchImage(upgrade.url, { Range: 'bytes=0-9' })).status;
    expect(await range()).toBe(206);
    await change('pause');
    expect(await range()).toBe(409);
    await bringUp(device, { action: topicActions.otaGet, payload: { offset: 0, length: 9 } });
    expect((await bridge.nextFor(device, topicActions.otaData)).body).toEqual({ offset: 0, error: 'paused' });
    await bringUp(device, { action: topicActions.otaGet, payload: { offset: 900, length: 100 } });
    expect((await bridge.nextFor(device, topicActions.otaData)).body).toEqual({ offset: 900, error: 'paused' });
    expect(await stateOf(device)).toBe('downloading');
    await change('resume');
    expect(await range()).toBe(206);
    await change('stop');
    expect(await range()).toBe(410);
    await rig.ringCampaign(campaignId);
    expect(await rig.firmwareOf(device)).toMatchObject({ update: { state: 'superseded', reason: 'stopped' } });
    expect((await change('resume')).message).toBe('campaign_over');
  });

  it('is asked for 600 times a minute', async () => {
    const { upgrade } = await offered();
    setClock(Date.now());
    const statuses = new Set<number>();
    for (let count = 0; count < 610; count++) {
      const answer = await rig.fetchImage(upgrade.url, { Range: 'bytes=0-0' });
      await answer.arrayBuffer();
      statuses.add(answer.status);
      if (answer.status === 429) break;
      expect(count).toBeLessThanOrEqual(600);
    }
    expect([...statuses]).toEqual([206, 429]);
  });
});

describe('an update', () => {
  it('is proved by the new version in a new session, and commands are refused until then', async () => {
    const { upgrade, device, productKey, campaignId } = await offered();
    await bringUp(device, rig.progress('accepted'), rig.progress('downloading', { percent: 40 }));
    expect(await rig.firmwareOf(device)).toMatchObject({
      installed: { version: '1.0.0', slot: 'a' },
      update: { state: 'downloading', percent: 40, formerVersion: '1.0.0' },
    });
    await (await rig.fetchImage(upgrade.url)).arrayBuffer();
    await bringUp(device, rig.progress('restarting'));
    expect((await control(device, { action: 'pulse' })).message).toBe('device_restarting');
    await rig.restart(device, '1.2.0');
    const { update } = await rig.firmwareOf(device);
    expect(update).toMatchObject({ state: 'proved', reason: null, endsAt: null });
    expect(update?.steps.map(({ state }) => state)).toEqual([
      'offered',
      'accepted',
      'downloading',
      'downloaded',
      'restarting',
      'proved',
    ]);
    const view = await rig.untilCampaign(productKey, campaignId, ({ state }) => state === 'done');
    expect(view).toMatchObject({ waves: [{ devices: 1, outcomes: { proved: 1 } }], list: [{ state: 'proved' }] });
  });

  it('pauses its campaign if the device does not come back in five minutes', async () => {
    const { upgrade, device, productKey, campaignId } = await offered();
    await (await rig.fetchImage(upgrade.url)).arrayBuffer();
    await bringUp(device, rig.progress('restarting'));
    await disconnect(device);
    const look = async () => {
      await rig.ringCampaign(campaignId);
      return rig.readCampaign(productKey, campaignId);
    };
    const outcomes = { restarting: 1 };
    expect(await look()).toMatchObject({ state: 'running', waves: [{ outcomes, away: 0 }] });
    setClock(Date.now() + 6 * minuteMs);
    expect(await look()).toMatchObject({ state: 'paused', pausedBecause: 'away', waves: [{ outcomes, away: 1 }] });
  });

  it('is rolled back by a device that had never told its version before it was offered', async () => {
    const { productKey } = await rig.prepareFirmware();
    const body = { productKey, deviceSN: 'silent' };
    const { data } = await call<{ deviceId: string }>('POST', '/devices/activate', { body });
    const device = { productKey, deviceId: data.deviceId };
    const campaign = await rig.startCampaign(productKey, '1.2.0', [rig.named([device])]);
    await rig.ringCampaign(campaign.data.campaignId);
    await connect(device);
    await bringUp(device, rig.inform('1.0.0'));
    await rig.takeUpdate(device, '1.0.0');
    expect(await rig.firmwareOf(device)).toMatchObject({ update: { state: 'rolled_back', formerVersion: '1.0.0' } });
  });

  it('is not rolled back by what the device informed of before it restarted, however soon it is back', async () => {
    const { upgrade, device } = await offered();
    await (await rig.fetchImage(upgrade.url)).arrayBuffer();
    await rig.restart(device, '1.0.0');
    expect(await stateOf(device)).toBe('downloaded');
    await bringUp(device, rig.progress('restarting'));
    await rig.restart(device, '1.2.0');
    expect(await stateOf(device)).toBe('proved');
  });

  it('is told again to a device that lost its connection, if its broker reports the session late', async () => {
    const { upgrade, device } = await offered();
    await (await rig.fetchImage(upgrade.url)).arrayBuffer();
    await disconnect(device);
    await bringUp(device, rig.inform('1.0.0'));
    await connect(device);
    expect(await rig.nextUpgrade(device)).toEqual(upgrade);
  });

  it('is put off by the owner, unless it is relevant to security', async () => {
    const { device } = await offered();
    const postpone = ({ deviceId }: Device) =>
      message(call('POST', `/devices/${deviceId}/firmware/postpone`, { token: owner.token }));
    expect(await postpone(device)).toBe('success');
    expect(await stateOf(device)).toBe('postponed');
    const { device: exposed } = await offered(rig.imageOf(10), { security: true });
    expect(await postpone(exposed)).toBe('update_needed');
    expect(await stateOf(exposed)).toBe('offered');
  });

  it('is not offered to a device that has the version, or is too old for it', async () => {
    const { productKey } = await rig.prepareFirmware('1.2.0', rig.imageOf(9), { minimumVersion: '1.0.5' });
    const [newer] = (await rig.makeDevices(productKey, 1, '1.10')) as [Device];
    const activate = async (deviceSN: string) =>
      (await call<Device>('POST', '/devices/activate', { body: { productKey, deviceSN } })).data.deviceId;
    const older = { ...newer, deviceId: await activate('old') };
    await bringUp(older, rig.inform('1.0.4'));
    // As if its activation had ended before its object knew.
    const [halfway, renamed] = ['dev_nobody00', 'update devices set device_id = ? where device_id = ?'];
    await env.DB.prepare(renamed)
      .bind(halfway, await activate('halfway'))
      .run();
    const devices = [newer.deviceId, older.deviceId, halfway];
    const { data } = await rig.startCampaign(productKey, '1.2.0', [{ devices }]);
    const { list } = await rig.untilCampaign(productKey, data.campaignId, ({ state }) => state === 'done');
    expect(devices.map((id) => list.find(({ deviceId }) => deviceId === id))).toMatchObject([
      { state: 'skipped', reason: 'has_version' },
      { state: 'skipped', reason: 'below_minimum' },
      { state: 'skipped', reason: 'not_active' },
    ]);
    expect(await stateOf(newer)).toBeUndefined();
  });
});
