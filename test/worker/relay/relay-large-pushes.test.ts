// Pushes that a relay shard cannot write at once: everybody gets everything in order, and what a socket may not have any more
// when its turn comes does not go out.
import { runInDurableObject } from 'cloudflare:test';
import { describe, expect, it } from 'vitest';
import { topicOf } from '../../../src/domain/topics.ts';
import type { RelayGateway } from '../../../src/objects/relay/relay-gateway.ts';
import { portionBytes } from '../../../src/objects/relay/outbox.ts';
import { everything } from '../rig/fleet.ts';
import { provisionDevice, type TestDevice } from '../rig/provision.ts';
import { listenAs, ping, pong, shard, tokenOf } from '../rig/clients/relay.ts';
import type { TestSocket } from '../rig/clients/socket.ts';

const ownerId = 1;
/** Two of them fill what goes at once. */
const large = 'x'.repeat(portionBytes / 2);
const runOf = (device: TestDevice, generations: number[], ...payloads: string[]) => ({
  ...{
    deviceId: device.deviceId,
    topic: topicOf(device, 'status'),
    payloads: payloads.map((one) => JSON.stringify(one)),
  },
  ...{ generations, readers: [ownerId] },
});

/** Skips the checks of reading, and answers them. */
async function nextPush(socket: TestSocket): Promise<unknown> {
  for (;;) {
    const frame = (await socket.next()) as { action?: string; id?: string };
    if (frame.action !== 'ping') return frame;
    socket.send({ action: 'pong', id: frame.id });
  }
}

describe('a push larger than a portion', () => {
  it('reaches every socket in order, and is answered when it has', async () => {
    const device = await provisionDevice();
    const sockets: TestSocket[] = [];
    for (let index = 0; index < 5; index += 1) sockets.push(await listenAs(device, topicOf(device, 'status')));
    const runs = [runOf(device, [1], large, '1'), runOf(device, [1], '2'), runOf(device, [1], '3')];
    expect(await shard().push(runs)).toEqual({ nobodyFor: [], noFleetOf: [ownerId] });
    await shard().push([runOf(device, [1], '4')]);
    for (const socket of sockets) {
      for (const payload of [large, '1', '2', '3', '4']) expect(await nextPush(socket)).toMatchObject({ payload });
      expect(await socket.ask(ping)).toEqual(pong);
    }
  });

  it.each<[string, (gateway: RelayGateway, device: TestDevice) => void]>([
    ['lost the right to it', (gateway, { deviceId }) => gateway.endSubscriptions(deviceId, ownerId)],
    ['follow a device that was deleted', (gateway, { deviceId }) => gateway.revoke(deviceId, 'deleted', [1])],
  ])('is kept from those whose users %s before their turn', async (_, meanwhile) => {
    const device = await provisionDevice();
    const topic = topicOf(device, 'status');
    const first = [await listenAs(device, topic), await listenAs(device, topic)];
    const user = { token: await tokenOf(ownerId) };
    const sockets = [await listenAs(user, topic), await listenAs(user, everything)];
    await runInDurableObject(shard(), async (gateway: RelayGateway) => {
      const pushing = gateway.push([runOf(device, [1], large, 'last')]);
      meanwhile(gateway, device);
      await pushing;
    });
    for (const one of first) expect(await nextPush(one)).toMatchObject({ payload: large });
    for (const socket of sockets) expect(await socket.ask(ping)).toEqual(pong);
  });
});
