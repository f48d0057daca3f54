// Attacks on the way through the broker: by strangers before their login, and by a device that is signed in.
import { setTimeout as sleep } from 'node:timers/promises';
import mqtt from 'mqtt';
import { generate } from 'mqtt-packet';
import { Random } from '../../../rig/inputs/random.ts';
import { Tally, type Attack, type Target } from '../rig/attack.ts';
import { openTcp } from '../rig/raw-socket.ts';
import { endOf, nameOfError } from '../rig/traffic.ts';

/** Loopback has 16 million addresses: each stranger comes from one of its own, or all from the same. */
const strangerAddress = (number: number): string => `127.1.${(number >> 8) & 255}.${1 + (number & 127)}`;

async function loginOf({ mqttUrl, own }: Target, index: number) {
  const device = own.devices[index];
  if (device === undefined) throw new Error('the attacker has no such device');
  const { username, password, clientId } = device.mqtt;
  const client = await mqtt.connectAsync(mqttUrl, { username, password, clientId, reconnectPeriod: 100 });
  client.on('error', () => undefined);
  return { client, topics: device.topics };
}

/** Publishes as fast as the broker acknowledges, `atOnce` at a time. */
async function publishFor(
  target: Target,
  index: number,
  seconds: number,
  messageOf: (n: number) => { topic: 'propertyPost' | 'status'; payload: string },
) {
  const tally = new Tally();
  const { client, topics } = await loginOf(target, index);
  const untilMs = endOf(seconds);
  const atOnce = 50;
  let number = 0;
  while (performance.now() < untilMs) {
    const some = Array.from({ length: atOnce }, () => {
      const { topic, payload } = messageOf(number++);
      return client.publishAsync(topics[topic], payload, { qos: 1 });
    });
    const done = Promise.allSettled(some);
    const ended = await Promise.race([done, sleep(5_000)]);
    for (const { status } of ended ?? []) tally.note(status === 'fulfilled' ? 'acknowledged' : 'refused');
    if (ended === undefined) tally.note('no answer for 5 s');
  }
  await client.endAsync(true);
  return tally;
}

export const mqttFloods: Attack[] = [
  {
    name: 'malformed-packets',
    title: 'MQTT packets with bytes changed, cut and repeated, before any login',
    holds: 'the connection ends; nothing else does',
    run: async ({ mqttPort, victim }, { inputs, inputSeconds, seed }) => {
      const tally = new Tally();
      const untilMs = endOf(inputSeconds);
      const random = new Random(seed);
      const good = [
        generate({ cmd: 'connect', protocolId: 'MQTT', protocolVersion: 4, clean: true, clientId: 'x', keepalive: 30 }),
        generate({
          cmd: 'publish',
          topic: `/sys/${victim.productKey}/${victim.deviceId}/status`,
          payload: '{"status":"offline"}',
          qos: 1,
          messageId: 1,
          dup: false,
          retain: false,
        }),
        generate({ cmd: 'subscribe', messageId: 2, subscriptions: [{ topic: '#', qos: 1 }] }),
        generate({ cmd: 'pingreq' }),
      ];
      const pick = (below: number): number => random.between(0, below - 1);
      for (let number = 0; number < Math.ceil(inputs / 50) && performance.now() < untilMs; number += 1) {
        const packet = Buffer.from(good[pick(good.length)] ?? []);
        for (let change = 0; change <= pick(4); change += 1) packet[pick(packet.length)] = pick(256);
        const bytes = pick(3) === 0 ? packet.subarray(0, pick(packet.length) + 1) : packet;
        try {
          const socket = await openTcp(mqttPort, strangerAddress(number));
          socket.on('error', () => undefined);
          const ended = new Promise<'closed'>((resolve) => socket.once('close', () => resolve('closed')));
          socket.write(Buffer.concat([bytes, good[1] ?? Buffer.alloc(0)]));
          tally.note((await Promise.race([ended, sleep(20)])) ?? 'waiting');
          socket.destroy();
        } catch (error) {
          tally.note(nameOfError(error));
        }
      }
      return tally.result();
    },
  },
  {
    name: 'wrong-passwords',
    title: "MQTT logins with the victim's name and wrong passwords",
    holds: 'refused; the device keeps its session (bystander)',
    run: async ({ mqttUrl, victim }, { seconds }) => {
      const tally = new Tally();
      const untilMs = endOf(seconds);
      const attempt = async (number: number): Promise<void> => {
        while (performance.now() < untilMs) {
          const username = `${victim.productKey}&${victim.deviceId}`;
          const options = { username, password: `wrong-${number}`, clientId: `x${number}`, reconnectPeriod: 0 };
          try {
            const client = await mqtt.connectAsync(mqttUrl, { ...options, connectTimeout: 5_000 }, false);
            tally.problem('a wrong password is let in');
            await client.endAsync(true);
          } catch (error) {
            tally.note(nameOfError(error));
          }
        }
      };
      await Promise.all(Array.from({ length: 16 }, (_, number) => attempt(number)));
      return tally.result();
    },
  },
  {
    name: 'huge-payloads',
    title: 'a signed-in device publishes payloads of 17 KiB to 30 MB',
    holds: 'refused or put aside truncated; reports behind them arrive (bystander)',
    run: async (target, { seconds }) => {
      const tally = new Tally();
      const untilMs = endOf(seconds);
      const sizes = [17 * 1024, 300 * 1024, 4 * 1024 * 1024, 30 * 1024 * 1024];
      for (let number = 0; performance.now() < untilMs; number += 1) {
        const { client, topics } = await loginOf(target, 3);
        const payload = Buffer.alloc(sizes[number % sizes.length] ?? 0, 0x41);
        const done = client.publishAsync(topics.propertyPost, payload, { qos: 1 }).then(
          () => 'acknowledged',
          (error: unknown) => nameOfError(error),
        );
        const closed = new Promise<string>((resolve) => client.once('close', () => resolve('closed')));
        tally.note((await Promise.race([done, closed, sleep(5_000)])) ?? 'no answer for 5 s');
        await client.endAsync(true);
      }
      return tally.result();
    },
  },
  {
    name: 'report-flood',
    title: 'one device reports as fast as the broker takes it, each time another position',
    holds: 'held to its bucket',
    run: async (target, { seconds }) => {
      const position = (n: number): string => (n % 2 === 0 ? 'up' : 'down');
      const tally = await publishFor(target, 4, seconds, (n) => ({
        topic: 'propertyPost',
        payload: JSON.stringify({
          method: 'thing.event.property.post',
          id: String(n),
          params: { position: position(n) },
        }),
      }));
      return tally.result();
    },
  },
  {
    name: 'status-flood',
    title: 'one device announces itself online and offline as fast as the broker takes it',
    holds: 'the database is written at a bounded rate (bystander)',
    run: async (target, { seconds }) => {
      const tally = await publishFor(target, 5, seconds, (n) => ({
        topic: 'status',
        payload: JSON.stringify({ status: n % 2 === 0 ? 'online' : 'offline', time: Date.now() }),
      }));
      return tally.result();
    },
  },
];
