// Firmware in the console, in a real browser against the whole service: a maker's key, an image, a campaign in waves, and devices that take
// the update over MQTT and HTTP. One is proved, one rolls back.
import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { activate, activateMany, type Activation } from '../../rig/clients/accounts.ts';
import { dataOf } from '../../rig/clients/api.ts';
import { MqttTestClient } from '../../rig/clients/mqtt-client.ts';
import { browserMissing } from '../../rig/browser/browser.ts';
import { Stage } from '../../rig/browser/console-stage.ts';
import { findBarriers, visitors } from '../../rig/browser/console-visit.ts';

const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const pem = publicKey.export({ type: 'spki', format: 'pem' }).toString();
const image = Buffer.from(Array.from({ length: 3_000 }, (_, at) => (at * 7) % 256));

/** The files that a maker chooses: as `latchwork-sign sign` writes them. */
function filesOf(product: string, version: string, more: object = {}, bytes = image) {
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const manifest = JSON.stringify({ product, version, size: bytes.length, sha256, ...more });
  const signature = sign('sha256', Buffer.from(manifest), { key: privateKey, dsaEncoding: 'ieee-p1363' });
  const signed = JSON.stringify({ manifest, signature: signature.toString('base64') });
  const mimeType = 'application/octet-stream';
  return {
    image: { name: 'switch.bin', mimeType, buffer: bytes },
    manifest: { name: 'switch.bin.json', mimeType: 'application/json', buffer: Buffer.from(signed) },
  };
}

/** A device that takes updates. */
class UpdatedDevice {
  readonly activation: Activation;
  readonly #url: string;
  #mqtt: MqttTestClient | undefined;

  constructor(url: string, activation: Activation) {
    this.#url = url;
    this.activation = activation;
  }

  get #topic() {
    return this.activation.topics.propertySet.replace('service/property/set', 'ota');
  }

  /** A session in which it says what it runs. */
  async begin(version: string): Promise<void> {
    const { server, port } = this.activation.mqtt;
    this.#mqtt = await MqttTestClient.ofDevice(`mqtt://${server}:${port}`, this.activation);
    await this.#mqtt.client.subscribeAsync(`${this.#topic}/upgrade`, { qos: 1 });
    await this.#say('inform', { version, slot: 'a' });
  }

  async leave(): Promise<void> {
    await this.#mqtt?.client.endAsync();
  }

  async progress(step: string, more: object = {}): Promise<void> {
    await this.#say('progress', { step, ...more });
  }

  /** Accepts what it is offered. */
  async accept(): Promise<string> {
    const upgrade = await this.#mqtt?.untilHeard(`${this.#topic}/upgrade`);
    const { url } = upgrade as { url: string };
    await this.progress('accepted');
    return url;
  }

  /** Takes all that it was offered at `url`, restarts, and comes back with `version`. */
  async install(url: string, version: string): Promise<void> {
    const answer = await fetch(this.#url + url, { headers: { Range: 'bytes=0-' } });
    expect(Buffer.from(await answer.arrayBuffer())).toEqual(image);
    await this.progress('downloaded');
    await this.progress('restarting');
    await this.leave();
    await this.begin(version);
  }

  async #say(name: string, body: object): Promise<void> {
    await this.#mqtt?.client.publishAsync(`${this.#topic}/${name}`, JSON.stringify(body), { qos: 1 });
  }
}

describe.skipIf(browserMissing !== null)(browserMissing ?? 'the firmware of a product', () => {
  let stage: Stage;
  let page: Page;
  const devices: Record<string, UpdatedDevice> = {};
  let campaign: string;

  beforeAll(async () => {
    stage = await Stage.open();
    const { owner, productKey, url } = stage;
    for (const name of ['Hall', 'Attic', 'Cellar', 'Bench']) {
      const activation = await activate(owner.api, productKey, `${name}-1`);
      const param = { deviceId: activation.deviceId };
      await dataOf(owner.api.devices[':deviceId'].$patch({ param, json: { name } }));
      devices[name] = new UpdatedDevice(url, activation);
      await devices[name].begin('1.0.0');
    }
    // More than a page of the last wave.
    await activateMany(
      owner.api,
      productKey,
      Array.from({ length: 60 }, (_, index) => `More-${index}`),
    );
    page = await stage.visit();
    await go(`#/products/${productKey}/firmware`);
  });
  afterAll(async () => {
    for (const device of Object.values(devices)) await device.leave();
    await stage.close();
  });
  afterEach(async () => expect(await stage.browser.takeProblems()).toEqual([]));

  const go = (hash: string, on = page) => on.evaluate(`location.hash = '${hash}'`);
  const press = (name: string) => page.getByRole('button', { name, exact: true }).click();
  const part = (name: string) => page.getByRole('region', { name, exact: true });
  const deviceOf = (name: string) => {
    const device = devices[name];
    if (device === undefined) throw new Error(`no device ${name}`);
    return device;
  };
  const screenOf = (name: string) => `#/devices/${deviceOf(name).activation.deviceId}/firmware`;
  const item = (name: string) => part('Devices').getByRole('listitem').filter({ hasText: name });
  /** Chromium notes each refused call on its console. */
  const wasRefused = async () => {
    const others = (await stage.browser.takeProblems()).filter((text) => !/status of 4\d\d/.test(text));
    expect(others).toEqual([]);
  };

  async function addFirmware(files: ReturnType<typeof filesOf>): Promise<void> {
    await page.getByLabel('The image').setInputFiles(files.image);
    await page.getByLabel('Its IMAGE.json').setInputFiles(files.manifest);
    await press('Add the firmware');
  }

  it('is signed with keys that the maker adds and removes', async () => {
    const keys = part('Keys that sign firmware');
    await keys.getByText('No key yet.').waitFor();
    await press('Add the key');
    await keys.getByText('Paste the key, or choose its file.').waitFor();
    await keys.getByLabel('Public key in PEM').fill('no key');
    await press('Add the key');
    await keys.getByText('This is no public key in PEM').waitFor();
    await wasRefused();
    await keys.getByLabel('Public key in PEM').fill(pem);
    await press('Add the key');
    await keys.getByText('P-256 · added just now').waitFor();
    const other = generateKeyPairSync('ed25519').publicKey.export({ type: 'spki', format: 'pem' });
    await keys
      .getByLabel('Or its file')
      .setInputFiles({ name: 'other.pem.pub', mimeType: 'text/plain', buffer: Buffer.from(other) });
    await press('Add the key');
    const row = keys.getByRole('listitem').filter({ hasText: 'Ed25519' });
    await row.getByRole('button').click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true }).click();
    await row.waitFor({ state: 'detached' });
    await keys.getByText('How to sign').click();
    await keys.getByText(`--product ${stage.productKey} --version`).waitFor();
  });

  it('is added with its image and what the maker signed, and nothing else is taken', async () => {
    const { productKey } = stage;
    const firmware = part('Firmware');
    await part('Campaigns').getByText('Add firmware with its image first.').waitFor();
    await addFirmware({ ...filesOf(productKey, '1.1.0'), manifest: filesOf(productKey, '1.1.0').image });
    await firmware.getByText('The second file is no IMAGE.json').waitFor();
    await addFirmware(filesOf('another-product', '1.1.0'));
    await firmware.getByText('The firmware was refused. (manifest: of another product)').waitFor();
    await wasRefused();
    await addFirmware({ ...filesOf(productKey, '1.1.0'), image: filesOf('', '', {}, image.subarray(1)).image });
    await firmware.getByText('The image is not the one that was signed').waitFor();
    // The upload fails on its way, and is done again.
    await page.route('**/image', (route) => route.abort(), { times: 1 });
    const files = filesOf(productKey, '1.1.0', { notes: 'Quieter servo', minimumVersion: '1.0.0' });
    await addFirmware(files);
    await firmware.getByText('Its image is missing').waitFor();
    expect((await stage.browser.takeProblems()).join()).toMatch(/^console: Failed to load resource: net::ERR_FAILED$/);
    await addFirmware(files);
    const row = firmware.getByRole('listitem').filter({ hasText: 'Quieter servo' });
    await row.getByText(/^2\.9 KiB · signed by [0-9a-f]{16} · for 1\.0\.0 or newer · image stored /).waitFor();
    await addFirmware(filesOf(productKey, '9.0', { security: true }));
    await firmware.getByText('relevant to security').waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await press('Delete 9.0');
    await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
    await firmware.getByText('relevant to security').waitFor({ state: 'detached' });
  });

  it('is offered wave by wave, and proved by a device that comes back with it', async () => {
    await press('Start a campaign');
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Devices that I choose').check();
    await dialog.getByRole('button', { name: 'Start', exact: true }).click();
    await dialog.getByText('Choose one device at least').waitFor();
    await dialog.getByLabel('Bench').check();
    await dialog.getByLabel('Then, in percent').fill('100, 50');
    await dialog.getByRole('button', { name: 'Start', exact: true }).click();
    await dialog.getByText('each larger than the one before').waitFor();
    await dialog.getByLabel('Then, in percent').fill('4, 100');
    await dialog.getByLabel('Minutes between waves').fill('0');
    await dialog.getByText('Only at certain times').click();
    await dialog.getByLabel('Each day from (UTC)').fill('00:00');
    await dialog.getByLabel('Each day until (UTC)').fill('00:00');
    expect(await findBarriers(page)).toEqual([]);
    await dialog.getByLabel('Each day from (UTC)').fill('');
    await dialog.getByLabel('Each day until (UTC)').fill('');
    await dialog.getByRole('button', { name: 'Start', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'Firmware 1.1.0' }).waitFor();
    campaign = new URL(page.url()).hash;
    const bench = deviceOf('Bench');
    const url = await bench.accept();
    await item('Bench').getByText('Accepted').waitFor();
    await bench.progress('downloading', { percent: 40 });
    await item('Bench').getByText('Downloading').waitFor();
    await item('Bench').getByRole('link').click();
    await part('Update').getByText('40 % downloaded').waitFor();
    await part('Installed').getByText('slot a · reported').waitFor();
    await bench.install(url, '1.1.0');
    await part('Update').getByText('The device came back and runs the new version.').waitFor();
    await part('Installed').getByText('1.1.0', { exact: true }).waitFor();
    expect(await part('Update').getByRole('listitem').locator(':first-child').allTextContents()).toEqual([
      ...['Offered', 'Accepted', 'Downloading', 'Downloaded', 'Restarting', 'Proved'],
    ]);
    expect(await findBarriers(page)).toEqual([]);
    await go(campaign);
    await part('Waves').getByRole('listitem').filter({ hasText: 'Wave 1' }).getByText('1 proved').waitFor();
  });

  it('is put off by the owner of a device', async () => {
    const attic = deviceOf('Attic');
    await part('Waves').getByText('2 under way').waitFor();
    await attic.leave();
    await go(screenOf('Attic'));
    await press('Not now');
    await part('Update').getByText('Its owner said “not now”.').waitFor();
    await part('Update').getByText('It is offered again on').waitFor();
    await go(campaign);
    await item('Attic').getByText('Put off').waitFor();
  });

  it('pauses its campaign when a device rolls back, and says why', async () => {
    const hall = deviceOf('Hall');
    await hall.install(await hall.accept(), '1.0.0');
    await page.getByText('It paused itself: too many devices of this wave').waitFor();
    await part('Waves').getByText('1 rolled back').waitFor();
    await part('Waves').getByText('1 put off').waitFor();
    await item('Hall').getByText('Rolled back').waitFor();
    expect(await findBarriers(page)).toEqual([]);
    await page.getByLabel('Of wave').selectOption('1');
    await item('Bench').getByText('Proved').waitFor();
    await page.getByLabel('Of wave').selectOption('2');
    await item('Hall').getByRole('link').click();
    await part('Update').getByText('The device came back with the version that it had before.').waitFor();
    await part('Update').getByText('From 1.0.0 to 1.1.0').waitFor();
  });

  it('goes on when its maker says so, page by page, and is stopped for good', async () => {
    await go(campaign);
    await press('Resume');
    await part('Waves').getByRole('listitem').filter({ hasText: 'Wave 3' }).getByText('61 under way').waitFor();
    await part('Devices').getByText('Page 1 of 2').waitFor();
    await press('Next page');
    await part('Devices').getByText('Page 2 of 2').waitFor();
    await expect.poll(() => part('Devices').getByRole('listitem').count()).toBe(14);
    await press('Previous page');
    await press('Pause');
    await page.getByText('It was paused by hand.').waitFor();
    await press('Resume');
    const cellar = deviceOf('Cellar');
    await cellar.accept();
    await cellar.progress('failed', { error: 'flash_write' });
    await item('Cellar').getByText('Failed: the device reported an error').waitFor();
    await go(screenOf('Cellar'));
    await part('Update').getByText('Failed: the device reported the error “flash_write”').waitFor();
    await go(campaign);
    await press('Stop');
    await press('Stop for good');
    await page.getByRole('status').filter({ hasText: 'Stopped' }).waitFor();
    await page.getByRole('link', { name: 'Firmware of the product' }).click();
    await part('Campaigns').getByRole('listitem').getByText('Stopped').waitFor();
  });

  it.each(visitors)('keeps nobody out %s, and fits', async (_, visitor) => {
    const other = await stage.visit(visitor);
    for (const [hash, text] of [
      [`#/products/${stage.productKey}/firmware`, 'Quieter servo'],
      [campaign, 'rolled back'],
      [screenOf('Hall'), 'Rolled back'],
    ] as const) {
      await go(hash, other);
      await other.getByText(text).first().waitFor();
      expect(await findBarriers(other), hash).toEqual([]);
    }
    await other.context().close();
  });
});
