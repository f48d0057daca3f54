// Persistent sessions at the local broker: what is delivered again, how it is marked, and what follows it.
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { IPublishPacket } from 'mqtt-packet';
import { HookServer, hookServerSecret, topicRoot } from '../../rig/services/hook-server.ts';
import { LocalBroker } from '../../rig/services/local-broker.ts';
import { RawMqtt, type RawLogin } from '../../rig/clients/raw-mqtt.ts';

const hook = new HookServer();
let broker: LocalBroker;
/** Its queues hold 300 messages. */
let smallBroker: LocalBroker;
let devices = 0;

beforeAll(async () => {
  const options = { workerUrl: await hook.start(), hookSecret: hookServerSecret };
  // One client publishes here what would be the messages of many.
  const fast = 'publishBurst=1000000';
  const small = { BROKER_LIMITS: `queuedMessages=300,${fast}` };
  broker = await LocalBroker.start({ ...options, environment: { BROKER_LIMITS: fast } });
  smallBroker = await LocalBroker.start({ ...options, environment: small });
});

afterAll(async () => {
  for (const each of [broker, smallBroker]) await each.stop('SIGKILL');
  hook.server?.close();
});

/** The rights of a device cover its own topics alone, so publisher and subscriber are one client. */
function newDevice(): { login: RawLogin; topic: string } {
  devices += 1;
  const name = `switch-1&dev_s${String(devices).padStart(7, '0')}`;
  return { login: { clientId: name, username: name, password: 'right' }, topic: `${topicRoot(name)}/status` };
}

async function openSession(login: RawLogin, topic: string, qos: 1 | 2 = 1, at = broker): Promise<RawMqtt> {
  const client = await RawMqtt.login(at.port, login, { clean: false });
  client.send({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic, qos }] });
  await client.until('SUBACK', () => client.received.some(({ cmd }) => cmd === 'suback'));
  return client;
}

let messageId = 0;

function publish(client: RawMqtt, topic: string, payloads: number[], qos: 1 | 2 = 1): void {
  for (const payload of payloads) {
    messageId += 1;
    client.send({ cmd: 'publish', topic, payload: String(payload), qos, messageId, dup: false, retain: false });
    if (qos === 2) client.send({ cmd: 'pubrel', messageId });
  }
}

/** What has come, and what comes. */
function acknowledgeAll(client: RawMqtt): void {
  let answered = 0;
  const answer = (): void => {
    const { published } = client;
    for (; answered < published.length; answered += 1) {
      client.send({ cmd: 'puback', messageId: published[answered]?.messageId ?? 0 });
    }
  };
  client.socket.on('data', answer);
  answer();
}

async function ping(client: RawMqtt): Promise<void> {
  const count = () => client.received.filter(({ cmd }) => cmd === 'pingresp').length;
  const before = count();
  client.send({ cmd: 'pingreq' });
  await client.until('PINGRESP', () => count() > before);
}

function numbers(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}

const describe = ({ payload, messageId: id, dup }: IPublishPacket) => ({ n: Number(payload), id, dup });

test('what is unacknowledged comes again first, in order, with its identifiers and DUP; the rest follows', async () => {
  const { login, topic } = newDevice();
  const first = await openSession(login, topic);
  publish(first, topic, numbers(1, 10));
  await first.until('10 messages', () => first.published.length === 10);
  const sent = first.published.map(describe);
  expect(sent.map(({ n, dup }) => [n, dup])).toEqual(numbers(1, 10).map((n) => [n, false]));
  for (const { id, n } of sent) if (n === 1 || n === 4) first.send({ cmd: 'puback', messageId: id ?? 0 });
  await ping(first);
  first.leave();

  // What is published with the CONNECT of the next connection comes after all that was there.
  const second = await RawMqtt.login(broker.port, login, { clean: false });
  publish(second, topic, numbers(11, 40));
  await second.until('38 messages', () => second.published.length === 38);
  const again = sent.filter(({ n }) => n !== 1 && n !== 4).map((message) => ({ ...message, dup: true }));
  expect(second.published.slice(0, 8).map(describe)).toEqual(again);
  const rest = second.published.slice(8).map(describe);
  expect(rest.map(({ n, dup }) => [n, dup])).toEqual(numbers(11, 40).map((n) => [n, false]));
  const ids = new Set(second.published.map(({ messageId: id }) => id));
  expect(ids.size).toBe(38);
  second.leave();

  const third = await RawMqtt.login(broker.port, login, { clean: false });
  await third.until('38 messages', () => third.published.length === 38);
  expect(third.published.map(describe)).toEqual(
    second.published.map((message) => ({ ...describe(message), dup: true })),
  );
  third.leave();
});

test('more than fits on the wire follows as it is acknowledged, each once and in order', async () => {
  const { login, topic } = newDevice();
  const client = await openSession(login, topic);
  acknowledgeAll(client);
  publish(client, topic, numbers(1, 5000));
  await client.until('5000 messages', () => client.published.length >= 5000);
  expect(client.published.map(({ payload }) => Number(payload))).toEqual(numbers(1, 5000));
  client.leave();
});

test('a released message of QoS 2 comes again as its PUBREL', async () => {
  const { login, topic } = newDevice();
  const first = await openSession(login, topic, 2);
  publish(first, topic, [1], 2);
  await first.until('the message', () => first.published.length === 1);
  const id = first.published[0]?.messageId ?? 0;
  first.send({ cmd: 'pubrec', messageId: id });
  await first.until('PUBREL', () => first.received.some(({ cmd }) => cmd === 'pubrel'));
  first.leave();
  const second = await RawMqtt.login(broker.port, login, { clean: false });
  await second.until('PUBREL', () => second.received.some(({ cmd }) => cmd === 'pubrel'));
  expect(second.published).toEqual([]);
  second.send({ cmd: 'pubcomp', messageId: id });
  publish(second, topic, [2], 1);
  await second.until('the next message', () => second.published.length === 1);
  expect(second.published.map(({ payload, qos }) => [String(payload), qos])).toEqual([['2', 1]]);
  second.leave();
});

test('a clean session forgets what was queued', async () => {
  const { login, topic } = newDevice();
  const first = await openSession(login, topic);
  publish(first, topic, [1]);
  await first.until('the message', () => first.published.length === 1);
  first.leave();
  (await RawMqtt.login(broker.port, login)).leave();
  const third = await openSession(login, topic);
  publish(third, topic, [2]);
  await third.until('the message', () => third.published.length === 1);
  expect(third.published.map(describe)).toMatchObject([{ n: 2, dup: false }]);
  third.leave();
});

test('a queue that is full keeps what it has, and the log says how much did not fit', async () => {
  const { login, topic } = newDevice();
  const first = await openSession(login, topic, 1, smallBroker);
  // 200 are on the wire, 300 wait, 100 do not fit.
  publish(first, topic, numbers(1, 600));
  await first.until('600 PUBACKs', () => first.received.filter(({ cmd }) => cmd === 'puback').length === 600);
  // It is read when all before it is done.
  await ping(first);
  acknowledgeAll(first);
  await first.until('500 messages', () => first.published.length === 500);
  await ping(first);
  expect(first.published.map(({ payload }) => Number(payload))).toEqual(numbers(1, 500));
  const told = smallBroker.lines.filter(({ clientId }) => clientId === login.clientId);
  expect(told.find(({ event }) => event === 'session_queue_full')).toMatchObject({ level: 'warn', messages: 300 });
  expect(told.find(({ event }) => event === 'session_queue_dropped')).toMatchObject({ level: 'error', messages: 100 });
  first.leave();
});

test('a publisher waits while a session that acknowledges is behind, so that nothing is dropped', async () => {
  const { login, topic } = newDevice();
  const subscriber = await openSession(login, topic, 1, smallBroker);
  // In the name of the same device, without a session: the rights are the device's.
  hook.aliases.set('publisher', login.clientId);
  const publisher = await RawMqtt.login(smallBroker.port, { ...login, clientId: 'publisher' });
  acknowledgeAll(subscriber);
  publish(publisher, topic, numbers(1, 20_000));
  await subscriber.until('all messages', () => subscriber.published.length === 20_000);
  expect(subscriber.published.map(({ payload }) => Number(payload))).toEqual(numbers(1, 20_000));
  const told = smallBroker.lines.filter(({ clientId }) => clientId === login.clientId);
  expect(told.filter(({ event }) => event === 'session_queue_full')).toEqual([]);
  publisher.leave();
  subscriber.leave();
});
