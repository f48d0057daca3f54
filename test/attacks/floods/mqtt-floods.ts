// Attacks on the way through the broker: by strangers before their login, and by a device that is signed in.
import { setTimeout as sleep } from 'node:timers/promises';
import mqtt from 'mqtt';
import { Tally, type Attack, type Target } from '../rig/attack.ts';
import { endOf, nameOfError } from '../rig/traffic.ts';

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
