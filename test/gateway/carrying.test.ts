// What the gateway carries: every byte, both ways, no faster than it is taken, and the end of one side as the end of the
// other one. The Worker's side is a real WebSocket server that speaks no MQTT, as the gateway does not.
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { generate } from 'mqtt-packet';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { GatewayProcess, gatewaySecret } from '../../rig/services/processes.ts';
import { GatewayInside } from '../../rig/services/gateway-inside.ts';
import { SocketServer } from '../../rig/services/socket-server.ts';
import { connectBytes, TcpClient } from '../../rig/clients/tcp-client.ts';

let worker: SocketServer;
let gateway: GatewayProcess;
const clients: TcpClient[] = [];

beforeEach(async () => {
  worker = await SocketServer.start();
  gateway = await GatewayProcess.start(worker.url);
});

afterEach(async () => {
  for (const { socket } of clients.splice(0)) socket.destroy();
  await gateway.kill('SIGKILL');
  await worker.stop();
});

async function openClient({ port }: { port: number } = gateway): Promise<TcpClient> {
  const client = await TcpClient.open(port);
  clients.push(client);
  return client;
}

/** A device whose CONNECT has gone through, and the Worker's side of its connection. */
async function connectDevice(gate: { port: number } = gateway) {
  const client = await openClient(gate);
  client.socket.write(connectBytes);
  return { client, side: await worker.side(0) };
}

describe('a connection', () => {
  test('has a WebSocket of its own, opened once CONNECT is whole, with the subprotocol, the secret and its address', async () => {
    const [client, mute] = [await openClient(), await openClient()];
    client.socket.write(connectBytes.subarray(0, 9));
    await sleep(50);
    expect(worker.sides).toHaveLength(0);
    client.socket.write(connectBytes.subarray(9));
    const side = await worker.side(0);
    expect(side.path).toBe('/mqtt/dev_00000000');
    expect(side.subprotocol).toBe('mqtt');
    expect(side.headers['authorization']).toBe(`Bearer ${gatewaySecret}`);
    expect(side.headers['latchwork-device-address']).toBe('127.0.0.1');
    await worker.changes.until('the first bytes', () => side.received.equals(connectBytes));
    expect(worker.sides).toHaveLength(1);
    mute.socket.write(connectBytes);
    await worker.side(1);
    expect(gateway.lines.map((line) => JSON.stringify(line)).join()).not.toContain(gatewaySecret);
  });

  test('is carried byte for byte in both directions, however it is cut', async () => {
    const client = await openClient();
    const [up, down] = [Buffer.concat([connectBytes, randomBytes(1_500_000)]), randomBytes(1_500_000)];
    for (let at = 0, size = 1; at < up.length; at += size, size = 1 + ((size * 7919) % 40_000)) {
      client.socket.write(up.subarray(at, at + size));
    }
    const side = await worker.side(0);
    for (let at = 0, size = 1; at < down.length; at += size, size = 1 + ((size * 104_729) % 60_000)) {
      side.socket.send(down.subarray(at, at + size));
    }
    await worker.changes.until('all bytes up', () => side.receivedBytes >= up.length);
    await client.until('all bytes down', () => client.receivedBytes >= down.length);
    expect(side.received.equals(up)).toBe(true);
    expect(client.received.equals(down)).toBe(true);
    await expect.poll(() => gateway.metric('gateway_bytes_up_total')).toBe(up.length);
    expect(await gateway.metric('gateway_bytes_down_total')).toBe(down.length);
  });

  test('that the device ends delivers what was sent before, then ends at the Worker', async () => {
    const client = await openClient();
    client.socket.end(Buffer.concat([connectBytes, Buffer.from('all of it')]));
    const side = await worker.side(0);
    await worker.changes.until('the end', () => side.closeCode !== undefined);
    expect(side.received.subarray(connectBytes.length).toString()).toBe('all of it');
    expect(side.closeCode).toBe(1000);
    await client.untilClosed();
  });

  test('that the device resets ends at the Worker', async () => {
    const { client, side } = await connectDevice();
    side.socket.send('answer', { binary: true });
    await client.until('the answer', () => client.receivedBytes > 0);
    client.socket.resetAndDestroy();
    await worker.changes.until('the end', () => side.closeCode !== undefined);
    await expect.poll(() => gateway.metric('gateway_connections')).toBe(0);
  });

  test('that the Worker ends delivers what was sent before, then ends at the device', async () => {
    const { client, side } = await connectDevice();
    side.socket.send(Buffer.alloc(300_000, 'a'));
    side.socket.close(1008);
    await client.untilClosed();
    expect(client.received).toHaveLength(300_000);
    await expect.poll(() => gateway.metric('gateway_connections')).toBe(0);
    expect((await gateway.ask('/metrics')).text).toContain('gateway_connections_closed_total{by="worker"} 1');
  });

  test('whose WebSocket breaks ends at the device', async () => {
    const { client, side } = await connectDevice();
    side.socket.terminate();
    await client.untilClosed();
  });
});

describe('a side that does not read', () => {
  test('the Worker: the device is read no further, and everything arrives once it reads', async () => {
    worker.onOpen = ({ socket }) => socket.pause();
    const client = await openClient();
    const sent = Buffer.concat([connectBytes, Buffer.alloc(32 * 1024 * 1024, 'u')]);
    client.socket.write(sent);
    const side = await worker.side(0);
    const before = await untilStill(() => gateway.metric('gateway_bytes_up_total'));
    // Beyond its own 64 KiB, what the buffers of the system's sockets hold.
    expect(before).toBeLessThan(16 * 1024 * 1024);
    side.socket.resume();
    await worker.changes.until('all bytes', () => side.receivedBytes === sent.length);
  });

  test('the device: the Worker is read no further, and everything arrives once it reads', async () => {
    const { client, side } = await connectDevice();
    client.socket.pause();
    const frame = Buffer.alloc(64 * 1024, 'd');
    for (let index = 0; index < 512; index += 1) side.socket.send(frame);
    const before = await untilStill(() => gateway.metric('gateway_bytes_down_total'));
    expect(before).toBeLessThan(16 * 1024 * 1024);
    client.socket.resume();
    await client.until('all bytes', () => client.receivedBytes === 512 * frame.length);
  });

  test('the device, for longer than it may: both sides are ended', async () => {
    const inside = await GatewayInside.start(worker.url, { unreadMs: 1_000 });
    const { client, side } = await connectDevice(inside);
    client.socket.pause();
    const frame = Buffer.alloc(64 * 1024, 'd');
    for (let index = 0; index < 512; index += 1) side.socket.send(frame);
    await worker.changes.until('the end', () => side.closeCode !== undefined);
    expect(await inside.readMetrics()).toContain('gateway_connections_closed_total{by="unread"} 1');
    await inside.stop();
  });
});

/** The value once it is the same for half a second. */
async function untilStill(read: () => Promise<number>): Promise<number> {
  let last = -1;
  for (;;) {
    const now = await read();
    if (now === last && now > 0) return now;
    last = now;
    await sleep(500);
  }
}

describe('a device that does not begin as one', () => {
  const named = (username: string, protocolVersion: 4 | 5) =>
    generate({
      ...{ cmd: 'connect', protocolId: 'MQTT', protocolVersion, clean: true, keepalive: 60 },
      ...{ clientId: 'x', username, password: Buffer.from('tk_x') },
    });
  const mqtt31 = Buffer.from([0x10, 15, 0, 6, ...Buffer.from('MQIsdp'), 3, 2, 0, 60, 0, 1, 0x78]);

  test.each<[string, Buffer, number[]]>([
    ['a user name that is none, MQTT 3.1.1', named('admin', 4), [0x20, 2, 0, 4]],
    ['a user name that is none, MQTT 5', named('admin', 5), [0x20, 3, 0, 0x86, 0]],
    ['MQTT 3.1', mqtt31, [0x20, 2, 0, 1]],
    ['another packet', Buffer.from([0xc0, 0]), []],
    ['no MQTT', Buffer.from('GET / HTTP/1.1\r\n\r\n'), []],
    ['CONNECT of more than 1 KiB', named('x'.repeat(1_100), 4), []],
    ['a length that never ends', Buffer.from([0x10, 255, 255, 255, 255, 1]), []],
  ])('is answered at once as the Worker would, and closed: %s', async (_, bytes, answer) => {
    const client = await openClient();
    client.socket.write(bytes);
    await client.untilClosed();
    expect([...client.received]).toEqual(answer);
    expect(worker.sides).toHaveLength(0);
  });

  test.each([
    [404, 4],
    [503, 3],
  ])('or whose Worker answers %i has the code %i', async (status, code) => {
    worker.refuseWith = status;
    const client = await openClient();
    client.socket.write(connectBytes);
    await client.untilClosed();
    expect([...client.received]).toEqual([0x20, 2, 0, code]);
  });
});
