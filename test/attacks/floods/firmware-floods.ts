// Attacks on firmware: addresses of images are guessed and asked for odd ranges, makers upload what is none, a device says what it wants.
import { randomBytes } from 'node:crypto';
import { connect as connectTcp } from 'node:net';
import mqtt from 'mqtt';
import { Changes } from '../../../rig/changes.ts';
import { connectApi } from '../../../rig/clients/api.ts';
import { makeMaker } from '../../../rig/clients/firmware.ts';
import { topicOf } from '../../../src/domain/topics.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import type { Attack, Effort, Target } from '../rig/attack.ts';
import { besideHeavyWorkMs } from '../rig/judgement.ts';
import { addressOf, endOf, inParallel, nameOfError, send } from '../rig/traffic.ts';
import { flood } from './http-floods.ts';
import { sceneOf } from './lesser-rights.ts';

const image = new Uint8Array(randomBytes(5_000));
const version = '1.2.0';
/** How long an answer may take; one that never ends has none. */
const watchedMs = { waits: 90_000, leaves: 90_000, holds: 1_000 };

/** A maker of his own, with firmware whose image is there. */
async function makeScene(target: Target) {
  const scene = sceneOf(target);
  const owner = await scene.signUp();
  const productKey = await scene.product(owner);
  const api = connectApi(target.url, { token: owner.token });
  const maker = await makeMaker(target.url, { api, token: owner.token }, productKey);
  await maker.addFirmware(version, image);
  return { ...scene, owner, productKey, maker, path: `/api/v1/products/${productKey}` };
}

/** A device of his, which was offered it. */
async function makeUpgrade(target: Target) {
  const scene = await makeScene(target);
  const { deviceId, mqtt: login } = await scene.activate(scene.owner, scene.productKey);
  const { username, password, clientId } = login;
  const client = await mqtt.connectAsync(target.mqttUrl, { username, password, clientId, reconnectPeriod: 100 });
  client.on('error', () => undefined);
  const changes = new Changes();
  let upgrade: { url: string } | undefined;
  client.on('message', (topic, payload) => {
    if (topic.endsWith(topicActions.otaUpgrade)) upgrade = JSON.parse(payload.toString()) as { url: string };
    changes.note();
  });
  const say = (action: keyof typeof topicActions, body: unknown) => {
    const topic = topicOf({ productKey: scene.productKey, deviceId }, topicActions[action]);
    return client.publishAsync(topic, typeof body === 'string' ? body : JSON.stringify(body), { qos: 1 });
  };
  await client.subscribeAsync(topicOf({ productKey: scene.productKey, deviceId }, topicActions.otaUpgrade), { qos: 1 });
  await say('otaInform', { version: '1.0.0' });
  await scene.maker.startCampaign({ version, waves: [{ devices: [deviceId] }] });
  await changes.until('an upgrade', () => upgrade !== undefined);
  return { ...scene, deviceId, say, url: upgrade!.url, leave: () => client.endAsync(true) };
}

const most = 9_007_199_254_740_993n;
const ranges = [
  ...['bytes=0-0', 'bytes=4999-', 'bytes=-5000', 'bytes=-99999999', 'bytes=10-999999999999999', 'BYTES=1-2'],
  ...[
    'bytes=5000-',
    'bytes=-0',
    'bytes=9-8',
    'bytes=',
    'bytes=-',
    'bytes=--1',
    'bytes=0x1-0x2',
    'bytes=1e3-',
    'lines=0-1',
  ],
  ...[
    `bytes=${most}-`,
    `bytes=0-${most}`,
    `bytes=${'9'.repeat(400)}-`,
    `bytes=${'0-1,'.repeat(1_500)}2-3`,
    'x'.repeat(7_000),
  ],
];

const manifestOf = (productKey: string, more: object) =>
  JSON.stringify({ product: productKey, version: '2.0', size: 5_000, sha256: 'a'.repeat(64), ...more });
const deep = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;
const oddWaves = [
  ...[[], [{}], [{ percent: 2 }], [{ percent: 0 }], [{ percent: -1 }], [{ percent: 1e308 }], [{ percent: '1' }]],
  ...[
    [{ percent: 1 }, { percent: 1 }],
    [{ percent: 1 }, { percent: 0.5 }],
    [{ percent: 1, devices: [] }],
    [{ devices: [] }],
  ],
  ...[
    [{ devices: ['dev_00000000', 'dev_00000000'] }],
    [{ devices: Array(101).fill('dev_00000000') }],
    [{ devices: ['#'] }],
  ],
  Array.from({ length: 11 }, (_, index) => ({ percent: (index + 1) / 100 })),
];
const oddOrders = [
  { window: { begin: '24:00', end: '1:00' } },
  { from: 'now' },
  { waitSeconds: 1e9 },
  { stopAt: { failedPercent: -1 } },
];

/** Writes an upload and reads the status of the answer. */
async function upload(url: string, lines: string[], body: Uint8Array, then: keyof typeof watchedMs): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connectTcp({ host: hostname, port: Number(port) });
  const { promise, resolve } = Promise.withResolvers<string>();
  socket.once('data', (chunk: Buffer) =>
    resolve(/^HTTP\/1\.1 (\d+)/.exec(chunk.toString('latin1'))?.[1] ?? 'unreadable'),
  );
  socket.once('close', () => resolve('closed'));
  socket.on('error', () => undefined);
  const timer = setTimeout(() => resolve('silent'), watchedMs[then]);
  socket.write([...lines, '', ''].join('\r\n'));
  socket.write(body);
  if (then === 'leaves') socket.end();
  const answer = await promise;
  clearTimeout(timer);
  socket.destroy();
  return answer;
}

const attack = (name: string, title: string, holds: string, run: Attack['run']): Attack => ({
  ...{ name, title, holds, isOnce: true, slowsToMs: besideHeavyWorkMs, run },
});

export const firmwareFloods: Attack[] = [
  flood(
    { name: 'image-guesses', title: 'guessed addresses of images, from many addresses', holds: 'none has one' },
    ({ victim }, number) => {
      const code = randomBytes(64).toString('hex').slice(0, 42);
      const names = [
        `${victim.deviceId.slice('dev_'.length)}${code}`,
        code,
        `${code}${code.repeat(40)}`,
        '%2e%2e%2f',
        '%00',
      ];
      const path = `/f/${names[number % names.length]}${number % 2 === 0 ? '' : '/manifest'}`;
      return {
        path,
        method: number % 7 === 6 ? 'POST' : 'GET',
        address: addressOf(number),
        headers: { Range: 'bytes=0-9' },
      };
    },
    (status) => status === 404 || status === 429,
  ),
  attack(
    'image-ranges',
    'a device asks for absurd ranges of its image without end, and at the address of another device',
    'exact parts or a refusal, at most 600 requests in the first minute',
    async (target, { seconds, clients }: Effort) => {
      const { tally, url, leave } = await makeUpgrade(target);
      const foreign = url.replace(/^\/f\/\w{8}/, `/f/${target.victim.deviceId.slice('dev_'.length)}`);
      const minutes = Math.ceil(seconds / 60);
      await inParallel(clients, endOf(seconds), async (number) => {
        const isForeign = number % 10 === 9;
        const range = ranges[number % ranges.length]!;
        const request = { headers: { Range: range }, address: addressOf(number) };
        const { status, text } = await send(`${target.url}${isForeign ? foreign : url}`, request);
        tally.note(status);
        const allowed = isForeign ? [404, 429] : [206, 416, 429];
        if (!allowed.includes(status)) tally.problem(`${range.slice(0, 40)}: ${status} ${text.slice(0, 100)}`);
      });
      if (tally.of(206) > 600 * (1 + minutes)) tally.problem(`${tally.of(206)} parts`);
      await leave();
      return tally.result();
    },
  ),
  attack(
    'image-uploads',
    'images with a wrong length, none, cut or never ended; manifests, keys and campaigns that are none',
    'refused; the image that was there stays',
    async (target, { seconds, clients, sockets }) => {
      const { tally, judge, ask, owner, productKey, maker, path } = await makeScene(target);
      const head = [
        `PUT ${path}/firmware/${version}/image HTTP/1.1`,
        `Authorization: Bearer ${owner.token}`,
        'Host: x',
      ];
      const put = (header: string, body: Uint8Array, then: keyof typeof watchedMs = 'waits') =>
        upload(target.url, [...head, header], body, then);
      const size = `Content-Length: ${image.length}`;
      const uploads: [string, Promise<string>][] = [];
      for (let count = 0; count < Math.min(sockets, 60); count += 6)
        uploads.push(
          ['400', put('Content-Length: 10', image.subarray(0, 10))],
          ['400', put(`Content-Length: ${2 ** 40}`, image)],
          ['400', put('Transfer-Encoding: chunked', Buffer.from('5\r\nabcde\r\n0\r\n\r\n'))],
          ['400', put(size, image.with(7, image[7]! ^ 1))],
          ['400', put(size, image.subarray(0, 99), 'leaves')],
          ['silent', put(size, image.subarray(0, 99), 'holds')],
        );
      for (const [wanted, answering] of uploads) {
        const answer = await answering;
        tally.note(`upload ${answer}`);
        if (!['429', wanted, 'closed'].includes(answer))
          tally.problem(`an upload is answered ${answer}, not ${wanted}`);
      }
      const signed = (manifest: string) => ({ manifest, signature: maker.sign(manifest) });
      const own = manifestOf(productKey, {});
      const bodies: [string, object][] = [
        ...[deep(400), `{"product":${deep(30)}}`, 'null', '"x"', '{', manifestOf('other', {})].map(signed),
        ...[{ version: '1.x' }, { size: 2 ** 53 }, { sha256: 'x' }, { notes: '\0'.repeat(200) }, { size: '5' }]
          .map((more) => manifestOf(productKey, more))
          .map(signed),
        ...['', '====', 'A'.repeat(88), `${'A'.repeat(86)}==`, 'ä'.repeat(88), 'A'.repeat(9_000)].map((signature) => ({
          manifest: own,
          signature,
        })),
        signed(manifestOf(productKey, { notes: 'x'.repeat(5_000) })),
      ].map((body) => ['firmware', body]);
      for (const publicKey of [
        '',
        'x'.repeat(1_001),
        `-----BEGIN PUBLIC KEY-----\n${'A'.repeat(500)}\n-----END PUBLIC KEY-----`,
      ])
        bodies.push(['firmware-keys', { publicKey }]);
      for (const waves of oddWaves) bodies.push(['campaigns', { version, waves }]);
      for (const more of oddOrders) bodies.push(['campaigns', { version, waves: [{ percent: 1 }], ...more }]);
      await inParallel(clients, endOf(seconds), async (number) => {
        const [to, body] = bodies[number % bodies.length]!;
        const { address, headers } = owner;
        const { status, text } = await send(`${target.url}${path}/${to}`, {
          method: 'POST',
          address,
          headers,
          body: JSON.stringify(body),
        });
        tally.note(status);
        if (status !== 400 && status !== 429)
          tally.problem(`${to} ${JSON.stringify(body).slice(0, 150)}: ${status} ${text}`);
      }).catch((error: unknown) => tally.problem(nameOfError(error)));
      const { total } = await ask(owner, `GET /products/${productKey}/campaigns`);
      judge('campaigns', String(total), '0');
      const whole = await put(size, image);
      judge('the image itself', whole === '429' ? '200' : whole, '200');
      return tally.result();
    },
  ),
  attack(
    'update-messages',
    'a device informs, reports progress and asks for bytes as fast as the broker takes it, half of it odd',
    'held to its bucket; its update is not proved',
    async (target, { seconds }) => {
      const { tally, ask, owner, deviceId, say, leave } = await makeUpgrade(target);
      const bodies: ['otaInform' | 'otaProgress' | 'otaGet', unknown][] = [
        ...[{ version }, { version: '1.0.0', slot: 'x'.repeat(99) }, { version: '9'.repeat(50) }, {}].map((body) => [
          'otaInform',
          body,
        ]),
        ...[
          { step: 'downloading', percent: 1e308 },
          { step: 'accepted' },
          { step: 'proved' },
          { step: ['failed'] },
        ].map((body) => ['otaProgress', body]),
        ...[
          { offset: 0, length: 600 },
          { offset: 4_999, length: 600 },
          { offset: -1, length: 1 },
          { offset: 2 ** 60, length: 2 ** 60 },
        ].map((body) => ['otaGet', body]),
        ...[deep(500), '{"version":', '\0', 'x'.repeat(5_000)].map((text) => ['otaGet', text]),
      ] as never;
      for (let number = 0, untilMs = endOf(seconds); performance.now() < untilMs;) {
        const some = Array.from({ length: 50 }, () => say(...bodies[number++ % bodies.length]!));
        for (const { status } of await Promise.allSettled(some))
          tally.note(status === 'fulfilled' ? 'acknowledged' : 'refused');
      }
      await leave();
      const { update } = (await ask(owner, `GET /devices/${deviceId}/firmware`)) as unknown as {
        update: { state: string };
      };
      if (update.state === 'proved') tally.problem('its update is proved');
      return tally.result();
    },
  ),
];
