// `{ws_url}/mqtt/{deviceId}` under a flood: what a connection without a right password costs the objects of devices.
// Guesses at passwords beyond that are in unproven-socket.test.
import { expect, it } from 'vitest';
import { topicOf } from '../../../src/domain/topics.ts';
import { connectPacket, DirectClient, pingreq, publishPacket } from '../rig/clients/direct.ts';
import { countWoken, limiter, sendWith } from '../rig/limited.ts';
import { provisionDevice, statusOf } from '../rig/provision.ts';

let addresses = 0;
const newAddress = () => `203.0.113.${++addresses}`;

function upgrade(deviceId: string, changed: object, address = newAddress()): Promise<Response> {
  const headers = { Upgrade: 'websocket', 'Sec-WebSocket-Protocol': 'mqtt', 'CF-Connecting-IP': address };
  return sendWith({ RATE_LIMITS: 'production', ...changed }, 'GET', `/mqtt/${deviceId}`, { headers });
}

it('DIRECT_LIMIT holds the connections of one address', async () => {
  const [address, changed] = [newAddress(), { DIRECT_LIMIT: limiter(2) }];
  for (let opened = 0; opened < 2; opened += 1) {
    expect((await upgrade('dev_00000000', changed, address)).status).not.toBe(429);
  }
  const refused = await upgrade('dev_00000000', changed, address);
  expect([refused.status, refused.headers.get('Retry-After')]).toEqual([429, '60']);
  expect(await refused.json()).toMatchObject({ code: 429, message: 'too_many_requests' });
  expect((await upgrade('dev_00000000', changed)).status).not.toBe(429);
});

it('a device that is not there is answered for a while without its object', async () => {
  const { changed, woken } = countWoken();
  for (let opened = 0; opened < 5; opened += 1) {
    expect((await upgrade('dev_11111111', changed)).status).toBe(404);
  }
  expect(woken).toEqual(['dev_11111111']);
  expect((await upgrade('no-device-id', changed)).status).toBe(404);
  expect(woken).toHaveLength(1);
});

it('connections beyond what may wake objects are served with the right password', async () => {
  const device = await provisionDevice();
  const { changed, woken } = countWoken();
  const address = newAddress();
  const open = async () => DirectClient.over((await upgrade(device.deviceId, changed, address)).webSocket!);
  // Connections of one device in a minute that wake its object; the other budgets are larger.
  const straight = 6;
  for (let opened = 0; opened < straight; opened += 1) (await open()).drop();
  expect(woken.splice(0)).toHaveLength(straight);
  const client = await open();
  client.send(connectPacket(device));
  expect((await client.next()).body[1]).toBe(0);
  client.send(publishPacket(topicOf(device, 'thing/event/property/post'), '{"position":"up"}', { packetId: 7 }));
  expect([...(await client.next()).body]).toEqual([0, 7]);
  client.send(pingreq);
  expect((await client.next()).type).toBe(13);
  expect(await statusOf(device)).toMatchObject({ online: true, position: 'up' });
  expect(woken).toEqual([device.deviceId]);
});
