// An attacker knows product key and serial of a claimed device and tries to get it or to disturb it. The attempts are
// generated; the device is connected through a broker and on a direct connection. FUZZ_RUNS=66667 makes ten thousand attempts.
import fc from 'fast-check';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { createSecret, digestOf } from '../../src/crypto/secrets.ts';
import { parseMessagingName, topicOf } from '../../src/domain/topics.ts';
import { planFuzzing } from '../../rig/inputs/fuzzing.ts';
import { createKey, type Key } from '../worker/rig/authorization-callers.ts';
import { call, type Answer, type CallOptions } from '../worker/rig/clients/client.ts';
import { connectPacket, DirectClient, pingreq, publishPacket, type Level } from '../worker/rig/clients/direct.ts';
import {
  activate,
  anna,
  bert,
  createProduct,
  maker,
  signUpUsers,
  tokenOf,
  type Activation,
} from '../worker/rig/ownership.ts';
import { sessionOf } from '../worker/rig/provision.ts';
import { authed, itemOf, openRelay, report } from '../worker/rig/clients/relay.ts';

type Attempt = { what: string; run: () => Promise<string | undefined> };

const plan = planFuzzing(0.15, 100);
const attemptsOfWay = plan.inputs / 2;
let productKey: string;
let key: Key;
let device: Activation;
let ownDevice: Activation;

/** Anna owns the device, Bert attacks it. */
beforeEach(async () => {
  vi.spyOn(console, 'info').mockImplementation(() => undefined);
  await signUpUsers();
  productKey = await createProduct();
  key = await createKey(bert);
  // Whoever had it in hand before it was sold: what was issued then is worth nothing.
  const before = (await activate(productKey)).data;
  device = (await activate(productKey, await tokenOf(anna))).data;
  expect(device.deviceId).toBe(before.deviceId);
  ownDevice = (await activate(productKey, await tokenOf(bert), { deviceSN: 'SN-2' })).data;
  known.length = 0;
  for (const { mqtt, deviceSecret } of [before, ownDevice]) known.push(mqtt.password, deviceSecret);
});

/** Secrets that the stranger has. */
const known: string[] = [];

/** Why an answer is more than a refusal. */
function judge({ status, code, message, data }: Answer<unknown>): string | undefined {
  if (status === code && [400, 401, 403, 404].includes(status) && data === null) return undefined;
  return `${status} ${message} ${JSON.stringify(data)}`;
}

const secret = fc.oneof(
  fc.constantFrom('', 'sk_', 'tk_', 'null', '0'),
  fc.nat(7).map((index) => known[index % Math.max(known.length, 1)] ?? ''),
  fc.constant(undefined).map(() => createSecret('tk_', 48)),
  fc.constant(undefined).map(() => createSecret('sk_', 32)),
  fc.string({ maxLength: 64 }),
);

const activation = fc
  .record(
    {
      claimToken: fc.oneof(fc.constant(undefined), fc.constant('own'), fc.stringMatching(/^[0-9a-hjkmnp-tv-z]{20}$/)),
      deviceSecret: secret,
      firmwareVersion: fc.constantFrom('', '1.0.0', 'x'.repeat(64)),
      chipModel: fc.constantFrom('ESP32', ''),
      ownerId: fc.nat(),
      claimantId: fc.nat(),
      policy: fc.constantFrom('open', 'never'),
      reactivation: fc.constant('open'),
    },
    { requiredKeys: [] },
  )
  .map((input): Attempt => {
    return {
      what: `activation ${JSON.stringify(input)}`,
      run: async () => {
        const { claimToken, ...more } = input;
        return judge(await activate(productKey, claimToken === 'own' ? await tokenOf(bert) : claimToken, more));
      },
    };
  });

const routes: [string, string, unknown?][] = [
  ['GET', ''],
  ['GET', '/status'],
  ['GET', '/events'],
  ['GET', '/properties'],
  ['GET', '/commands'],
  ['GET', '/ownership'],
  ['GET', '/members'],
  ['POST', '/control', { action: 'toggle' }],
  ['POST', '/credentials'],
  ['POST', '/release'],
  ['POST', '/transfer', { email: 'x@example.test' }],
  ['POST', '/transfer/accept'],
  ['POST', '/transfer/decline'],
  ['DELETE', '/transfer'],
  ['POST', '/pairing-window'],
  ['DELETE', '/pairing-window'],
  ['PATCH', '', { disabled: true }],
  ['PATCH', '', { name: 'mine' }],
  ['PATCH', '', { reactivation: 'open' }],
  ['DELETE', ''],
];
const request = fc
  .record({
    route: fc.constantFrom(...routes),
    by: fc.constantFrom('nobody' as const, 'token', 'key', 'secret', 'maker'),
    secret,
  })
  .map(({ route: [method, path, body], by, secret: guessed }): Attempt => {
    return {
      what: `${method} ${path} by ${by}`,
      run: async () => {
        // Who made the product may disable it, and may nothing else.
        const isAllowed = by === 'maker' && body !== undefined && JSON.stringify(body).includes('disabled');
        if (isAllowed) return undefined;
        const credentials: Record<typeof by, CallOptions> = {
          nobody: {},
          token: { token: bert.token },
          key: { key },
          secret: { headers: { Authorization: `Bearer ${encodeURIComponent(guessed)}` } },
          maker: { token: maker.token },
        };
        return judge(await call<unknown>(method, `/devices/${device.deviceId}${path}`, { ...credentials[by], body }));
      },
    };
  });

/** Asks the device's object as a broker or a relay shard does, with right names and guessed passwords. */
const login = fc.record({ secret, relayShard: fc.constantFrom(undefined, 'relay-0') }).map((input): Attempt => {
  return {
    what: 'login',
    run: async () => {
      const passwordDigest = await digestOf(input.secret);
      const { relayShard } = input;
      const outcome = await sessionOf(device.deviceId).authenticate({
        productKey,
        passwordDigest,
        peer: '198.51.100.7',
        ...(relayShard === undefined ? {} : { relayShard }),
      });
      return outcome.ok ? 'logged in' : undefined;
    },
  };
});

/** As an MQTT client, at the device's own address. */
const direct = fc
  .record({
    secret,
    level: fc.constantFrom<Level>(4, 5),
    clientId: fc.constantFrom('right', 'right', 'other', ''),
  })
  .map(({ secret: password, level, clientId }): Attempt => {
    return {
      what: 'direct',
      run: async () => {
        const { deviceId, mqtt } = device;
        const notUpgraded = () => undefined;
        const client = await DirectClient.open(deviceId, { 'Sec-WebSocket-Protocol': 'mqtt' }).catch(notUpgraded);
        if (client === undefined) return undefined;
        const named = { deviceId, productKey, name: mqtt.username, password };
        client.send(
          connectPacket(named, {
            level,
            ...(clientId !== 'right' && { clientId: clientId && ownDevice.mqtt.username }),
          }),
        );
        try {
          const { type, body } = await client.next();
          return type === 2 && body[1] !== 0 ? undefined : `CONNACK ${[type, ...body].join()}`;
        } catch {
          // Closed without an answer, as behind too many that have not logged in.
          return client.end === undefined ? 'no answer' : undefined;
        } finally {
          client.drop();
        }
      },
    };
  });

const relay = fc
  .record({ secret, by: fc.constantFrom('token' as const, 'maker' as const, 'key' as const, 'password' as const) })
  .map(({ secret: guessed, by }): Attempt => {
    return {
      what: `relay by ${by}`,
      run: async () => {
        const socket = await openRelay();
        const { username } = device.mqtt;
        const auth = {
          token: { token: bert.token },
          maker: { token: maker.token },
          key: { apiKey: key.keyId, apiSecret: key.apiKey },
          password: { username, password: guessed },
        };
        await socket.ask({ action: 'auth', ...auth[by] });
        const { productKey: name, deviceId } = parseMessagingName(username)!;
        const topic = `/sys/${name}/${deviceId}/#`;
        const { code } = (await socket.ask({ action: 'subscribe', topic })) as { code: number };
        socket.close();
        return code === 200 ? 'subscribed' : undefined;
      },
    };
  });

type Session = { stillOpen: () => Promise<void>; say: (topic: string, payload: string) => Promise<void> };

async function connectThroughBroker(): Promise<Session> {
  const session = sessionOf(device.deviceId);
  const passwordDigest = await digestOf(device.mqtt.password);
  await session.authenticate({ productKey, passwordDigest });
  await session.decide({ kind: 'connection_reported', report: { kind: 'connected', sessionStartedAtMs: Date.now() } });
  return { stillOpen: () => Promise.resolve(), say: (topic, payload) => report(itemOf(topic, payload)) };
}

async function connectDirectly(): Promise<Session> {
  const { deviceId, mqtt } = device;
  const client = await DirectClient.connect({ deviceId, productKey, name: mqtt.username, password: mqtt.password });
  const stillOpen = async () => {
    client.send(pingreq);
    expect((await client.next()).type).toBe(13);
  };
  const say = async (topic: string, payload: string) => {
    client.send(publishPacket(topic, payload, { packetId: 1 }));
    expect((await client.next()).type).toBe(4);
  };
  return { stillOpen, say };
}

describe.each([
  ['through a broker', connectThroughBroker],
  ['on a direct connection', connectDirectly],
])('of a claimed device connected %s', (_, connect) => {
  it(
    `a stranger gets nothing in ${attemptsOfWay} attempts (seed ${plan.seed}), and does not disturb it`,
    async () => {
      const { deviceId } = device;
      const session = await connect();
      const identity = parseMessagingName(device.mqtt.username)!;
      const asDevice = await openRelay();
      const auth = { action: 'auth', username: device.mqtt.username, password: device.mqtt.password };
      expect(await asDevice.ask(auth)).toEqual(authed);
      const read = (path: string) =>
        call<Record<string, unknown>>('GET', `/devices/${deviceId}${path}`, { token: anna.token });
      const record = await vi.waitFor(
        async () => {
          const answer = await read('');
          expect(answer).toMatchObject({ data: { status: 'online' } });
          return answer;
        },
        { timeout: 20_000 },
      );
      const attempts = fc.oneof(
        { weight: 5, arbitrary: activation },
        { weight: 3, arbitrary: request },
        { weight: 2, arbitrary: login },
        { weight: 2, arbitrary: direct },
        { weight: 1, arbitrary: relay },
      );
      const made = fc.sample(attempts, { numRuns: attemptsOfWay, seed: plan.seed });
      const got: string[] = [];
      for (let at = 0; at < made.length; at += 50) {
        const answers = await Promise.all(
          made.slice(at, at + 50).map(async ({ what, run }) => ({ what, answer: await run() })),
        );
        got.push(...answers.flatMap(({ what, answer }) => (answer === undefined ? [] : [`${what}: ${answer}`])));
        await session.stillOpen();
      }
      expect(got).toEqual([]);
      expect((await read('')).data).toEqual(record.data);
      expect(await read('/status'), 'its session was never interrupted').toMatchObject({ data: { online: true } });
      const { list } = (await read('/events?size=100')).data as { list: { status: string; count?: number }[] };
      const presence = list.filter(({ status }) => status === 'online' || status === 'offline');
      expect(presence).toMatchObject([{ status: 'online' }]);
      expect(
        list.map(({ status }) => status),
        'its owner is told',
      ).toEqual(expect.arrayContaining(['activation_refused', 'login_refused']) as string[]);
      const topic = topicOf(identity, 'thing/event/property/post');
      expect(await asDevice.ask({ action: 'subscribe', topic }), 'its relay session is still there').toMatchObject({
        code: 200,
      });
      await session.say(topic, '{"params":{"position":"down"}}');
      expect(await read('/status')).toMatchObject({ data: { position: 'down' } });
      const passwordDigest = await digestOf(device.mqtt.password);
      expect(await sessionOf(deviceId).authenticate({ productKey, passwordDigest })).toMatchObject({ ok: true });
      const again = await activate(productKey, await tokenOf(anna));
      expect(again).toMatchObject({ status: 200, data: { deviceId } });
    },
    Math.max(60_000, plan.inputs * 100),
  );
});
