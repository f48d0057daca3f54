// The relay of the built Worker under clients that mean no good: they do not read, or send without end. What
// is counted how is in unit/relay/admission, unit/relay/outbox and worker/relay/relay-limits.
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Activation } from '../../rig/clients/accounts.ts';
import { membersOfGroup, readIfThere } from '../../rig/process-group.ts';
import { RelayClient, type RelayOptions } from '../../rig/clients/relay-client.ts';
import { WorkerRig } from '../../rig/worker/worker-rig.ts';

let rig: WorkerRig;
const closings: Record<string, unknown>[] = [];

beforeAll(async () => {
  const onWorkerLine = (line: string) => {
    if (line.includes('"relay socket closed"')) closings.push(JSON.parse(line) as Record<string, unknown>);
  };
  rig = await WorkerRig.start({ vars: { RATE_LIMITS: 'production', RELAY_SHARDS: '1' }, onWorkerLine });
});
afterAll(() => rig.stop());

let addresses = 0;
const newAddress = () => `198.51.100.${++addresses}`;
const openFrom = (address: string, options: Pick<RelayOptions, 'onPushText'> = {}) =>
  RelayClient.open(rig.url, {
    socket: { headers: { 'CF-Connecting-IP': address }, perMessageDeflate: false },
    ...options,
  });

const everything = ({ topics }: Activation) => topics.status.replace(/status$/, '#');

async function follow(device: Activation, ...from: Parameters<typeof openFrom>): Promise<RelayClient> {
  const client = await openFrom(...from);
  await client.follow({ token: rig.owner.token }, [everything(device)]);
  return client;
}

let seq = 0;

/** As a bridge brings it: `count` reports of about 15 KiB, which the device has never sent before. */
function report({ topics }: Activation, count: number): Promise<void> {
  const filler = 'x'.repeat(15_000);
  const payloads = Array.from({ length: count }, () => JSON.stringify({ params: { n: ++seq }, filler }));
  return rig.sendBatch(payloads.map((payload) => ({ topic: topics.propertyPost, payload })));
}

function workerdMebibytes(): number {
  const workerd = membersOfGroup(rig.pid).find(({ name }) => name === 'workerd');
  return Number(/VmRSS:\s+(\d+)/.exec(readIfThere(`/proc/${workerd?.pid}/status`))?.[1]) / 1024;
}

it.skipIf(process.platform !== 'linux')('keeps no more for a client that does not read than it says', async () => {
  const device = await rig.activate('SLOW');
  const reader = await follow(device, newAddress());
  const slowAddress = newAddress();
  const drop = { onPushText: () => undefined };
  const slow = await Promise.all(Array.from({ length: 10 }, () => follow(device, slowAddress, drop)));
  const reportMany = async () => {
    for (let batch = 0; batch < 60; batch++) {
      await report(device, 60);
      await reader.untilPushed(device.topics.propertyPost, (payload) =>
        JSON.stringify(payload).includes(`"n":${seq}}`),
      );
      reader.pushes.length = 0;
    }
  };
  await reportMany();
  const before = workerdMebibytes();
  for (const client of slow) client.stopReading();
  await reportMany();
  const pushedToSlow = (slow.length * 60 * 60 * 15_000) / 2 ** 20;
  const grown = workerdMebibytes() - before;
  expect(pushedToSlow).toBeGreaterThan(500);
  expect(grown, `of ${pushedToSlow} MiB`).toBeLessThan(100);
  expect(closings.filter(({ code }) => code === 1013)).toHaveLength(slow.length);
  for (const client of slow) {
    client.readAgain();
    expect(await client.untilClosed()).toEqual({ code: 1013, reason: 'too much unread' });
  }
  expect(await reader.ask({ action: 'unsubscribe', topic: everything(device) }), 'who reads stays').toMatchObject({
    code: 200,
  });
});

it('closes a socket that sends without end, keeps its address out, and answers the other sockets of its user', async () => {
  const address = newAddress();
  const client = await openFrom(address);
  await client.follow({ token: rig.owner.token }, []);
  const other = await openFrom(newAddress());
  await other.follow({ token: rig.owner.token }, []);
  for (let sent = 0; sent < 2_000; sent++) client.send('{"action": "ping"}');
  expect(await client.untilClosed()).toEqual({ code: 1008, reason: 'too many frames' });
  expect(client.replies.length).toBeGreaterThanOrEqual(299);
  expect(await other.ask('{"action": "ping"}')).toEqual({ action: 'pong' });
  await expect(openFrom(address)).rejects.toThrow('429');
});

it('lets no giant frame before a login fill the memory: its address is shut out for a minute, that of a large one is not', async () => {
  const [large, giant] = [newAddress(), newAddress()];
  const before = workerdMebibytes();
  const tooLarge = { code: 1009, reason: 'frame larger than 16 KiB' };
  const sendFrom = async (address: string, frame: string) => {
    const client = await openFrom(address);
    client.send(frame);
    expect(await client.untilClosed()).toEqual(tooLarge);
  };
  await sendFrom(large, 'ä'.repeat(9_000));
  await sendFrom(large, 'x'.repeat(17_000));
  await sendFrom(giant, 'x'.repeat(30 * 2 ** 20));
  await (await openFrom(large)).ask('{"action": "ping"}');
  await expect(openFrom(giant)).rejects.toThrow('429');
  expect(workerdMebibytes() - before).toBeLessThan(120);
});

it('answers too_many_requests when many sockets of one user send at once, and other users as ever', async () => {
  const address = newAddress();
  const clients = await Promise.all(Array.from({ length: 12 }, () => openFrom(address)));
  for (const client of clients) await client.follow({ token: rig.owner.token }, []);
  for (const client of clients) {
    for (let sent = 0; sent < 250; sent++) client.send('{"action":"unsubscribe","topic":"none"}');
  }
  const refused = { action: 'unsubscribe', code: 400, message: 'too_many_requests' };
  await Promise.all(clients.map((client) => client.untilReplies(250)));
  const replies = clients.flatMap((client) => client.replies.map((reply) => JSON.stringify(reply)));
  expect(replies).toContain(JSON.stringify(refused));
  expect(replies.filter((reply) => reply.includes('success')).length).toBeGreaterThanOrEqual(1_000);
  const device = await rig.activate('CALM');
  const calm = await openFrom(address);
  const { username, password } = device.mqtt;
  await calm.follow({ username, password }, [everything(device)]);
});
