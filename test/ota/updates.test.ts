// An update from its offer to the new version, what a device refuses, and what it waits for.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createKeyPair } from '../../client/sign/firmware.ts';
import { buildOtaClient, OtaDevice, otaClientMissing, type BootOptions } from '../../rig/clients/ota-client.ts';
import { keyId, makeImage, publicPem } from './makers.ts';
import { StandInService, type Faults } from './stand-in-service.ts';

const restart = 75;
const old = await makeImage('1.9.0');
const next = await makeImage('1.10.0', { minimumVersion: '1.9', notes: 'é', security: true });
const transports: [string, BootOptions][] = [
  ['HTTP', {}],
  ['MQTT', { isOverMqtt: true }],
];

const stranger = (await createKeyPair()).privateKey;
const flipped = Buffer.from(next.image);
flipped[12_345]! ^= 1;
const refusals: [string, string, typeof next, Faults][] = [
  ['is not newer', 'version_not_newer', await makeImage('1.9'), {}],
  ['is older', 'version_not_newer', await makeImage('1.8.65535'), {}],
  ['another key signed', 'bad_signature', await makeImage('1.10.0', {}, 'ok', stranger), {}],
  ['was changed in its manifest', 'bad_signature', next, { manifest: (lines) => lines.replace('1.9', '1.0') }],
  ['has garbage for a signature', 'bad_signature', next, { manifest: (l) => `${l.slice(0, -89)}${'!'.repeat(88)}\n` }],
  ['has an overlong manifest', 'bad_manifest', next, { manifest: (lines) => 'x'.repeat(4000) + lines }],
  ['is of another product', 'other_product', await makeImage('1.10.0', { product: 'other' }), {}],
  ['needs a newer version', 'below_minimum_version', await makeImage('1.10.0', { minimumVersion: '1.9.0.1' }), {}],
  ['has another hash than offered', 'other_hash', next, { offer: { hash: '0123456789abcdef' } }],
  ['has another version than offered', 'other_version', next, { offer: { version: '1.11' } }],
  ['has another size than offered', 'other_size', next, { offer: { size: 20 } }],
  ['is larger than 16 MiB', 'bad_size', next, { offer: { size: 16 * 1024 * 1024 + 1 } }],
  ['has no countable size', 'bad_size', next, { offer: { size: -1e300 } }],
  ['has a flipped bit', 'wrong_sha256', next, { image: flipped }],
];
const wholeRange = `bytes 0-${next.image.length - 1}/${next.image.length}`;
const answers: [string, NonNullable<Faults['answerImage']>][] = [
  ['200 with the whole image', (_, r) => !!r.writeHead(200, { 'content-range': wholeRange }).end(next.image)],
  ['206 of another range', (_, r) => !!r.writeHead(206, { 'content-range': 'bytes 1-9/20003' }).end(next.image)],
  ['206 without a range', (_, response) => !!response.writeHead(206).end(next.image)],
  ['an error', (_, response) => !!response.writeHead(500).end('x'.repeat(100_000))],
];

describe.skipIf(otaClientMissing !== null)(`a device with two slots (${otaClientMissing ?? 'built here'})`, () => {
  let program: string;
  const services: StandInService[] = [];
  beforeAll(() => {
    program = buildOtaClient();
  });
  afterAll(() => Promise.all(services.map((service) => service.stop())));

  async function offer({ image, signed } = next, faults: Faults = {}, running = old) {
    const service = await StandInService.start(image, signed, faults);
    services.push(service);
    return { service, device: new OtaDevice(program, service, publicPem, running.image, running.signed) };
  }

  it.each(transports)('takes an update over %s, confirms it, and boots it from then on', async (_, options) => {
    const { service, device } = await offer();
    expect(await device.boot(options).end()).toMatchObject({
      code: restart,
      lines: ['boot slot=a version=1.9.0 trying=0', 'informed', 'begin at=0'],
    });
    const percents = service.progress.flatMap(({ percent }) => percent ?? []);
    // TCP may bring more than a tenth at once.
    if (options.isOverMqtt === true) expect(percents).toEqual([0, 10, 20, 30, 40, 50, 60, 70, 80, 90]);
    expect(percents).toEqual(
      [...new Set(percents.map((percent) => percent - (percent % 10)))].toSorted((a, b) => a - b),
    );
    const steps = ['accepted', ...percents.map(() => 'downloading'), 'downloaded', 'restarting'];
    expect(service.progress.map(({ step }) => step)).toEqual(steps);

    const trial = device.boot(options);
    await trial.untilLine('informed');
    expect(await trial.stop()).toMatchObject({ code: 0, lines: ['boot slot=b version=1.10.0 trying=1', 'informed'] });
    const keys = [keyId];
    expect(service.informs).toEqual([
      { version: '1.9.0', slot: 'a', keys },
      { version: '1.10.0', slot: 'b', keys },
    ]);
    const later = device.boot(options);
    await later.untilLine('informed');
    expect((await later.stop()).lines[0]).toBe('boot slot=b version=1.10.0 trying=0');
    expect(service.longestPayload).toBeLessThanOrEqual(150);
  });

  it('updates the other way too, from slot b to slot a', async () => {
    const { service, device } = await offer();
    await device.boot().end();
    const trial = device.boot();
    await trial.untilLine('informed');
    await trial.stop();
    const third = await makeImage('2');
    service.open(third.image, third.signed);
    expect((await device.boot().end()).lines).toContain('begin at=0');
    const last = device.boot();
    await last.untilLine('informed');
    expect((await last.stop()).lines[0]).toBe('boot slot=a version=2 trying=1');
  });

  it.each([
    ['never-confirms', 1],
    ['crashes', 'SIGABRT'],
  ])('goes back to the old image if the new one %s', async (behaviour, code) => {
    const { service, device } = await offer(await makeImage('1.10.0', {}, behaviour));
    expect((await device.boot().end()).code).toBe(restart);
    expect(await device.boot().end()).toMatchObject({ code, lines: ['boot slot=b version=1.10.0 trying=1'] });
    service.isOpen = false;
    const back = device.boot();
    await back.untilLine('informed');
    expect((await back.stop()).lines[0]).toBe('boot slot=a version=1.9.0 trying=0');
  });

  it('boots the other slot if its own was damaged, and nothing if both were', async () => {
    const { device } = await offer();
    await device.boot().end();
    const trial = device.boot();
    await trial.untilLine('informed');
    await trial.stop();
    damage(join(device.state, 'slot-b'));
    const other = device.boot();
    expect(await other.untilLine('boot')).toBe('boot slot=a version=1.9.0 trying=0');
    await other.stop();
    damage(join(device.state, 'slot-a.manifest'));
    expect(await device.boot().end()).toMatchObject({ code: 3, lines: [] });
  });

  describe.each(transports)('over %s', (_, options) => {
    it.each(refusals)('refuses an image that %s (%s)', async (_image, error, made, faults) => {
      const { service, device } = await offer(made, faults);
      const boot = device.boot(options);
      expect(await boot.untilLine('failed')).toBe(`failed ${error}`);
      await service.untilProgress('failed');
      expect((await boot.stop()).code).toBe(0);
      expect(service.progress.at(-1)).toEqual({ step: 'failed', error });
      const after = device.boot(options);
      expect(await after.untilLine('boot')).toBe('boot slot=a version=1.9.0 trying=0');
      await after.stop();
    });
  });

  it.each(answers)('keeps nothing of %s, gives up after some tries, and says so', async (_, answerImage) => {
    const { service, device } = await offer(next, { answerImage });
    const boot = device.boot();
    expect(await boot.untilLine('failed')).toMatch(/^failed http_(200|206|500)$/);
    await service.untilProgress('failed');
    expect((await boot.stop()).code).toBe(0);
    expect(readFileSync(join(device.state, 'slot-b'))).toHaveLength(0);
  });

  it('goes on after a pause, too many requests, a short answer and one that is too long', async () => {
    let request = 0;
    const answerImage: Faults['answerImage'] = ({ headers }, response) => {
      request += 1;
      if (request === 1)
        response.writeHead(409, { 'retry-after': '60' }).end('{"code":409,"message":"campaign_paused"}');
      else if (request === 2) response.writeHead(429, { 'retry-after': '1' }).end();
      else if (request === 3) {
        response.writeHead(206, { 'content-range': wholeRange, 'content-length': next.image.length });
        response.write(next.image.subarray(0, 7_000), () => response.destroy());
      } else if (request === 4) {
        const [asked = '', from] = /(\d+)-\d+/.exec(headers.range ?? '') ?? [];
        const tooLong = Buffer.concat([next.image.subarray(Number(from)), Buffer.alloc(100)]);
        response.writeHead(206, { 'content-range': `bytes ${asked}/${next.image.length}` }).end(tooLong);
      } else return false;
      return true;
    };
    const { device } = await offer(next, { answerImage });
    expect((await device.boot().end()).code).toBe(restart);
    expect(request).toBe(5);
  });

  it.each(transports)('forgets an update that has ended (%s), and takes the next one', async (_, options) => {
    const { service, device } = await offer(next, {
      answerImage: (_request, response) => !!response.writeHead(410).end(() => service.close()),
      answerGet: (get, usual) => {
        if (get.manifest === true) return usual;
        service.close();
        return [{ offset: get.offset, error: 'gone' }];
      },
    });
    const boot = device.boot(options);
    expect(await boot.untilLine('gone')).toBe('gone');
    const third = await makeImage('3');
    service.open(third.image, third.signed);
    service.sendOffer();
    expect((await boot.end()).code).toBe(restart);
  });

  it('goes on over MQTT after a pause, a busy service, lost messages, and whatever does not fit', async () => {
    let get = 0;
    const hostile = (offset: number): (object | string)[] => [
      '{"offset":0,"data":"AAAA"',
      '['.repeat(250),
      `{"offset":${offset},"data":"${'A'.repeat(4000)}"}`,
      { offset, data: '****' },
      { offset, data: 'A'.repeat(103) },
      { offset, data: 'A'.repeat(104) },
      { offset: offset + 1, data: 'AAAA' },
      { offset: -1, data: 'AAAA' },
      { offset: 1e300, data: 'AAAA' },
      { offset: `${offset}`, data: 'AAAA' },
      { offset, data: 7 },
      { offset, manifest: true, data: 'AAAA' },
      { error: 'x'.repeat(200) },
    ];
    const answerGet: Faults['answerGet'] = ({ offset, manifest }, usual) => {
      get += manifest === true ? 0 : 1;
      if (get === 1) return [{ offset, error: 'paused' }];
      if (get === 2) return [{ offset, error: 'busy' }];
      if (get === 3) return [];
      if (get === 4) return usual.slice(1);
      return manifest === true ? usual : [...hostile(offset), ...usual, ...usual];
    };
    const { service, device } = await offer(next, { answerGet });
    const boot = device.boot({ isOverMqtt: true });
    service.send('upgrade', `{"version":"${'9'.repeat(300)}"}`);
    expect((await boot.end()).code).toBe(restart);
    const trial = device.boot();
    await trial.untilLine('informed');
    const more = { size: 100, hash: '0123456789abcdef' };
    for (const unreadable of [
      {},
      { version: '9'.repeat(6) },
      { version: '9', url: '/f/../../etc' },
      { version: '1..2' },
    ]) {
      service.send('upgrade', { ...more, url: '/f/x', ...unreadable });
    }
    service.send('upgrade', '{');
    service.send('data', { offset: 0, data: 'AAAA' });
    service.send('upgrade', { ...more, version: '1', url: '/f/x' });
    // The only one that can be read, and the last: the others were taken before it.
    expect(await trial.untilLine('failed')).toBe('failed version_not_newer');
    expect((await trial.stop()).lines.filter((line) => line.startsWith('failed'))).toHaveLength(1);
  });
});

function damage(file: string): void {
  const bytes = readFileSync(file);
  bytes[bytes.length >> 1]! ^= 1;
  writeFileSync(file, bytes);
}
