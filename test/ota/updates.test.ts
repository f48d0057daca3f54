// An update from its offer to the new version, what a device refuses, and what it waits for: at the whole service, over HTTP and MQTT.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createKeyPair } from '../../client/sign/firmware.ts';
import { MqttTestClient } from '../../rig/clients/mqtt-client.ts';
import { otaClientMissing, type BootOptions, type OtaDevice } from '../../rig/clients/ota-client.ts';
import { AlteringProxy, type Alter, type Answer } from '../../rig/services/altering-proxy.ts';
import { bridgeName, bridgePassword } from '../../rig/services/processes.ts';
import { keyId, makeImage, Makers, newBoot, oldBoot, restart, signLines } from './makers.ts';

const transports: [string, BootOptions][] = [
  ['HTTP', {}],
  ['MQTT', { isOverMqtt: true }],
];
const stranger = await createKeyPair();

/** In place of the manifest resource. `lines` is what the service serves. */
type Swap = (lines: string, image: Buffer<ArrayBuffer>, product: string) => string | Promise<string>;
const version = '1.10.0';
const swaps: [string, string, Swap][] = [
  [
    'another key signed',
    'bad_signature',
    (_, image, product) => signLines(image, { product, version }, stranger.privateKey),
  ],
  ['was changed in its manifest', 'bad_signature', (lines) => lines.replace('1.10.0', '1.10.1')],
  ['has garbage for a signature', 'bad_signature', (lines) => `${lines.slice(0, -89)}${'!'.repeat(88)}\n`],
  ['has an overlong manifest', 'bad_manifest', (lines) => 'x'.repeat(4000) + lines],
  ['is of another product', 'other_product', (_, image) => signLines(image, { product: 'other', version })],
  ['is older', 'version_not_newer', (_, image, product) => signLines(image, { product, version: '1.8.65535' })],
  ['is not newer', 'version_not_newer', (_, image, product) => signLines(image, { product, version: '1.9' })],
  ['is not the offered one', 'other_hash', (_, image, product) => signLines(image.subarray(1), { product, version })],
];
const onImage =
  (change: (answer: Answer) => Partial<Answer>): Alter =>
  (answer, path) =>
    path.endsWith('/manifest') ? answer : { ...answer, ...change(answer) };
const whole = { 'content-range': 'bytes 1-9/40003' };
const answers: [string, string, Alter][] = [
  [
    'a flipped bit',
    'wrong_sha256',
    onImage(({ body }) => ({ body: Buffer.from(body.map((byte, at) => byte ^ Number(at === 123))) })),
  ],
  ['200 in place of a part', 'no_answer', onImage(() => ({ status: 200 }))],
  ['206 of another range', 'no_answer', onImage(() => ({ headers: whole }))],
  ['206 without a range', 'no_answer', onImage(() => ({ headers: {} }))],
  ['an error', 'no_answer', onImage(() => ({ status: 500, body: Buffer.alloc(100_000) }))],
];

describe.skipIf(otaClientMissing !== null)(`a device with two slots (${otaClientMissing ?? 'built here'})`, () => {
  let makers: Makers;
  const open: AsyncDisposable[] = [];
  beforeAll(async () => {
    makers = await Makers.start();
  });
  afterEach(() => Promise.all(open.splice(0).map((one) => one[Symbol.asyncDispose]())));
  afterAll(() => makers.stop());

  async function through(alter: Alter): Promise<string> {
    const proxy = await AlteringProxy.start(makers.service.rig.url, alter);
    open.push(proxy);
    return proxy.url;
  }

  async function expectRefusal(device: OtaDevice, options: BootOptions, error: string) {
    const { boots, update } = await makers.supervise(device, options);
    expect(boots).toEqual([oldBoot]);
    expect(update).toMatchObject({ state: 'failed', reason: 'device_error', error });
    expect(device.booted).toEqual({ slot: 'a', version: '1.9.0' });
  }

  /** Sends in the name of the service, beside it. `onGet` has the answers to what the device asks. */
  async function speak(
    { activation }: OtaDevice,
    onGet: (get: { offset: number; manifest?: true }) => (object | string)[],
  ) {
    const login = { username: bridgeName, password: bridgePassword, clientId: `${bridgeName}-${activation.deviceId}` };
    const client = await MqttTestClient.open(makers.service.rig.mqttUrl, { ...login, protocolVersion: 4 });
    open.push({ [Symbol.asyncDispose]: () => client.client.endAsync(true) });
    const topic = activation.topics.status.replace(/status$/, 'thing/ota/');
    const send = (name: string, payload: object | string) =>
      client.client.publishAsync(topic + name, typeof payload === 'string' ? payload : JSON.stringify(payload));
    client.client.on('message', (of, payload) => {
      if (of !== `${topic}get`) return;
      for (const answer of onGet(JSON.parse(payload.toString()) as { offset: number })) void send('data', answer);
    });
    await client.client.subscribeAsync('/sys/+/+/thing/ota/get');
    return send;
  }

  it.each(transports)('takes an update over %s, confirms it, and boots it from then on', async (_, options) => {
    const { device } = await makers.offer({ minimumVersion: '1.9', notes: 'é', security: true });
    const { boots, update } = await makers.supervise(device, options);
    expect(boots).toEqual([oldBoot, `${newBoot}1`]);
    expect(update).toMatchObject({ state: 'proved', formerVersion: '1.9.0', version, security: true });
    const later = device.boot(options);
    expect(await later.untilLine('boot')).toBe(`${newBoot}0`);
    await later.untilLine('informed');
    await later.stop();
    const { installed } = await makers.firmwareOf(device.activation.deviceId);
    expect(installed).toMatchObject({ version, slot: 'b', keys: [keyId] });
  });

  it('updates the other way too, from slot b to slot a, and to the same image of a newer version', async () => {
    const { device, product, campaign, next } = await makers.offer();
    await makers.supervise(device);
    await makers.change(campaign, 'stop');
    const [manifest = '', signature = ''] = (await signLines(next.image, { product, version: '2' })).split('\n');
    await makers.order(product, { ...next, signed: { manifest, signature } }, [device.activation]);
    const { boots, update } = await makers.supervise(device);
    expect(boots).toEqual([`${newBoot}0`, 'boot slot=a version=2 trying=1']);
    expect(update).toMatchObject({ state: 'proved', version: '2' });
  });

  it.each([
    ['never-confirms', 1],
    ['crashes', 'SIGABRT'],
  ])('goes back to the old image if the new one %s', async (behaviour, code) => {
    const { device } = await makers.offer({ behaviour });
    const { boots, update } = await makers.supervise(device, {}, [restart, code]);
    expect(boots).toEqual([oldBoot, `${newBoot}1`, oldBoot]);
    expect(update).toMatchObject({ state: 'rolled_back', formerVersion: '1.9.0' });
  });

  it('boots the other slot if its own was damaged, and nothing if both were', async () => {
    const { device } = await makers.offer();
    await makers.supervise(device);
    damage(join(device.state, 'slot-b'));
    const other = device.boot();
    expect(await other.untilLine('boot')).toBe(oldBoot);
    await other.stop();
    damage(join(device.state, 'slot-a.manifest'));
    expect(await device.boot().end()).toEqual({ code: 3, lines: [] });
  });

  it.each(swaps)('refuses an image that %s (%s)', async (_, error, swap) => {
    const { device, next, product } = await makers.offer();
    const lines = await swap(`${next.signed.manifest}\n${next.signed.signature}\n`, next.image, product);
    const api = await through((answer, path) =>
      path.endsWith('/manifest') ? { status: 200, headers: {}, body: Buffer.from(lines) } : answer,
    );
    await expectRefusal(device, { api }, error);
  });

  it.each(answers)('takes no image from %s (%s)', async (_, error, alter) => {
    const { device } = await makers.offer();
    await expectRefusal(device, { api: await through(alter), waitMs: 100 }, error);
  });

  describe.each(transports)('over %s', (_, options) => {
    it('refuses what needs a newer version', async () => {
      const { device } = await makers.offer({ minimumVersion: '1.9.0.1' });
      await expectRefusal(device, options, 'below_minimum_version');
    });

    it('waits while the campaign is paused, forgets what has ended, and takes the next one', async () => {
      const { device, campaign, product } = await makers.offer();
      await makers.change(campaign, 'pause');
      const boot = device.boot(options);
      await boot.untilLine('paused');
      await makers.change(campaign, 'resume');
      expect((await boot.end()).code).toBe(restart);
      expect((await makers.supervise(device, options)).update).toMatchObject({ state: 'proved' });
      await makers.change(campaign, 'stop');
      const stopped = await makers.order(product, await makeImage({ product, version: '2' }), [device.activation]);
      await makers.change(stopped, 'pause');
      const last = device.boot(options);
      await last.untilLine('paused');
      await makers.change(stopped, 'stop');
      await last.untilLine('gone');
      await makers.order(product, await makeImage({ product, version: '3' }), [device.activation]);
      expect((await last.end()).code).toBe(restart);
      expect((await makers.supervise(device, options)).update).toMatchObject({ state: 'proved', version: '3' });
    });
  });

  it('goes on after an answer that breaks off, and after too many requests', async () => {
    const { device } = await makers.offer();
    let request = 0;
    const api = await through(
      onImage(({ body }) => {
        request += 1;
        if (request === 1) return { body: body.subarray(0, 7_000) };
        return request === 2 ? { status: 429, headers: {} } : {};
      }),
    );
    expect((await makers.supervise(device, { api })).update).toMatchObject({ state: 'proved' });
    expect(request).toBeGreaterThan(3);
  });

  it('finds false bytes over MQTT', async () => {
    const { device } = await makers.offer();
    await speak(device, ({ offset, manifest }) => (manifest ? [] : [{ offset, data: 'A'.repeat(100) }]));
    await expectRefusal(device, { isOverMqtt: true }, 'wrong_sha256');
  });

  it('goes on over MQTT beside whatever does not fit', async () => {
    const { device } = await makers.offer();
    const hostile = ({ offset, manifest }: { offset: number; manifest?: true }): (object | string)[] => [
      '{"offset":0,"data":"AAAA"',
      '['.repeat(250),
      `{"offset":${offset},"data":"${'A'.repeat(4000)}"}`,
      { offset, data: '****', manifest },
      { offset, data: 'A'.repeat(103), manifest },
      { offset, data: 'A'.repeat(108), manifest },
      { offset: offset + 1, data: 'AAAA', manifest },
      { offset: -1, data: 'AAAA', manifest },
      { offset: 1e300, data: 'AAAA', manifest },
      { offset: `${offset}`, data: 'AAAA', manifest },
      { offset, data: 7, manifest },
      { offset, data: 'AAAA', ...(manifest === undefined && { manifest: true }) },
      { error: 'x'.repeat(200) },
    ];
    const send = await speak(device, hostile);
    const boot = device.boot({ isOverMqtt: true });
    await boot.untilLine('informed');
    const offer = { version: '9', size: 100, hash: '0123456789abcdef', url: '/f/x' };
    for (const wrong of [{ url: '/f/../../etc' }, { hash: '' }, { url: `/f/${'x'.repeat(300)}` }, { hash: 7 }])
      await send('upgrade', { ...offer, ...wrong });
    await send('upgrade', '{');
    expect((await boot.end()).code).toBe(restart);
    expect((await makers.supervise(device)).update).toMatchObject({ state: 'proved' });
  });
});

function damage(file: string): void {
  const bytes = readFileSync(file);
  bytes[bytes.length >> 1]! ^= 1;
  writeFileSync(file, bytes);
}
