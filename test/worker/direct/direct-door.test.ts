// `{ws_url}/mqtt/{deviceId}` under a flood: what a connection without a right password costs the objects of devices.
// Guesses at passwords beyond that are in unproven-socket.test.
import { createExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { describe, expect, it } from 'vitest';
import { createApp } from '../../../src/app.ts';
import { topicOf } from '../../../src/domain/topics.ts';
import { connectPacket, DirectClient, pingreq, publishPacket } from '../rig/clients/direct.ts';
import { provisionDevice, type TestDevice, statusOf } from '../rig/provision.ts';

const app = createApp();
let addresses = 0;
const newAddress = () => `203.0.113.${++addresses}`;

/** `bindings`: of an isolate, which counts what it refuses. */
type Opening = { limits?: string; address?: string; changed?: object; bindings?: Env };

function bindingsOf({ limits = '', changed = {} }: Opening): Env {
  const vars = { RATE_LIMITS: 'production', LIMITS: limits };
  return { ...env, ...vars, ...changed } as unknown as Env;
}

function upgrade(path: string, { address = newAddress(), ...opening }: Opening) {
  const headers = { Upgrade: 'websocket', 'Sec-WebSocket-Protocol': 'mqtt', 'CF-Connecting-IP': address };
  const request = new Request(`https://latchwork.test${path}`, { headers });
  return Promise.resolve(app.fetch(request, opening.bindings ?? bindingsOf(opening), createExecutionContext()));
}

async function open(deviceId: string, opening: Opening): Promise<DirectClient> {
  const response = await upgrade(`/mqtt/${deviceId}`, opening);
  if (response.webSocket === null) throw new Error(`not upgraded: ${response.status} ${await response.text()}`);
  return DirectClient.over(response.webSocket);
}

/** The return code of its CONNECT. */
async function logIn(client: DirectClient, device: TestDevice, password?: string): Promise<number | undefined> {
  client.send(connectPacket(device, password === undefined ? {} : { password }));
  return (await client.next()).body[1];
}

/** Objects of devices that were called. */
function countWoken() {
  const woken: string[] = [];
  const DEVICE_SESSION = {
    getByName(name: string) {
      woken.push(name);
      return env.DEVICE_SESSION.getByName(name);
    },
  };
  return { changed: { DEVICE_SESSION }, woken };
}

/** A limiter of `limit` uses a key. */
function limiter(limit: number) {
  const uses = new Map<string, number>();
  return {
    limit({ key }: { key: string }) {
      uses.set(key, (uses.get(key) ?? 0) + 1);
      return Promise.resolve({ success: (uses.get(key) ?? 0) <= limit });
    },
  };
}

describe('DIRECT_LIMIT', () => {
  it('holds the connections of one address', async () => {
    const path = '/mqtt/dev_00000000';
    const [address, changed] = [newAddress(), { DIRECT_LIMIT: limiter(2) }];
    for (const expected of [false, false, true]) {
      const { status } = await upgrade(path, { address, changed });
      expect(status === 429).toBe(expected);
    }
    const refused = await upgrade(path, { address, changed });
    expect([refused.status, refused.headers.get('Retry-After')]).toEqual([429, '60']);
    expect(await refused.json()).toMatchObject({ code: 429, message: 'too_many_requests' });
    expect((await upgrade(path, { address: newAddress(), changed })).status).not.toBe(429);
  });
});

describe('a device that is not there', () => {
  it('is answered for a while without its object', async () => {
    const { changed, woken } = countWoken();
    for (let tried = 0; tried < 5; tried += 1) {
      expect((await upgrade('/mqtt/dev_11111111', { changed })).status).toBe(404);
    }
    expect(woken).toEqual(['dev_11111111']);
    expect((await upgrade('/mqtt/no-device-id', { changed })).status).toBe(404);
    expect(woken).toHaveLength(1);
  });
});

describe('connections beyond what may wake objects', () => {
  /** Connections of one device in a minute that wake its object; the other budgets are larger. */
  const straight = 6;

  async function beyond(deviceId: string) {
    const { changed, woken } = countWoken();
    const opening = { address: newAddress(), changed };
    for (let opened = 0; opened < straight; opened += 1) (await open(deviceId, opening)).drop();
    expect(woken.splice(0)).toHaveLength(straight);
    return { opening, woken };
  }

  it('are served with the right one', async () => {
    const device = await provisionDevice();
    const { opening, woken } = await beyond(device.deviceId);
    const client = await open(device.deviceId, opening);
    expect(await logIn(client, device)).toBe(0);
    client.send(publishPacket(topicOf(device, 'thing/event/property/post'), '{"position":"up"}', { packetId: 7 }));
    expect([...(await client.next()).body]).toEqual([0, 7]);
    client.send(pingreq);
    expect((await client.next()).type).toBe(13);
    expect(await statusOf(device)).toMatchObject({ online: true, position: 'up' });
    expect(woken).toEqual([device.deviceId]);
  });
});
