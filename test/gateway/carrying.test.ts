// What the gateway carries: every byte, both ways, no faster than it is taken, and the end of one side as the end of the
// other one. The Worker's side is a real WebSocket server that speaks no MQTT, as the gateway does not.
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { GatewayProcess, gatewaySecret } from '../../rig/services/processes.ts';
import { SocketServer } from '../../rig/services/socket-server.ts';
import { TcpClient } from '../../rig/clients/tcp-client.ts';

let worker: SocketServer;
let gateway: GatewayProcess;
const clients: TcpClient[] = [];

beforeEach(async () => {
  worker = await SocketServer.start();
});

afterEach(async () => {
  for (const { socket } of clients.splice(0)) socket.destroy();
  await gateway.kill('SIGKILL');
  await worker.stop();
});

async function startGateway(environment: Record<string, string> = {}): Promise<void> {
  gateway = await GatewayProcess.start(worker.url, environment);
}

async function openClient(): Promise<TcpClient> {
  const client = await TcpClient.open(gateway.port);
  clients.push(client);
  return client;
}

describe('a connection', () => {
  test('has a WebSocket of its own, opened at its first byte, with the subprotocol, the secret and its address', async () => {
    await startGateway();
    const [client, mute] = [await openClient(), await openClient()];
    client.socket.write('first');
    const side = await worker.side(0);
    expect(side.path).toBe('/mqtt');
    expect(side.subprotocol).toBe('mqtt');
    expect(side.headers['authorization']).toBe(`Bearer ${gatewaySecret}`);
    expect(side.headers['latchwork-device-address']).toBe('127.0.0.1');
    await worker.changes.until('the first bytes', () => side.received.toString() === 'first');
    expect(worker.sides).toHaveLength(1);
    mute.socket.write('second');
    expect((await worker.side(1)).received.toString()).toMatch(/^(second)?$/);
    expect(gateway.lines.map((line) => JSON.stringify(line)).join()).not.toContain(gatewaySecret);
  });

  test('is carried byte for byte in both directions, however it is cut', async () => {
    await startGateway();
    const client = await openClient();
    const [up, down] = [randomBytes(1_500_000), randomBytes(1_500_000)];
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
    await startGateway();
    const client = await openClient();
    client.socket.end('all of it');
    const side = await worker.side(0);
    await worker.changes.until('the end', () => side.closeCode !== undefined);
    expect(side.received.toString()).toBe('all of it');
    expect(side.closeCode).toBe(1000);
    await client.untilClosed();
  });

  test('that the device resets ends at the Worker', async () => {
    await startGateway();
    const client = await openClient();
    client.socket.write('x');
    const side = await worker.side(0);
    side.socket.send('answer', { binary: true });
    await client.until('the answer', () => client.receivedBytes > 0);
    client.socket.resetAndDestroy();
    await worker.changes.until('the end', () => side.closeCode !== undefined);
    await expect.poll(() => gateway.metric('gateway_connections')).toBe(0);
  });

  test('that the Worker ends delivers what was sent before, then ends at the device', async () => {
    await startGateway();
    const client = await openClient();
    client.socket.write('x');
    const side = await worker.side(0);
    side.socket.send(Buffer.alloc(300_000, 'a'));
    side.socket.close(1008);
    await client.untilClosed();
    expect(client.received).toHaveLength(300_000);
    await expect.poll(() => gateway.metric('gateway_connections')).toBe(0);
    expect((await gateway.ask('/metrics')).text).toContain('gateway_connections_closed_total{by="worker"} 1');
  });

  test('whose WebSocket breaks ends at the device', async () => {
    await startGateway();
    const client = await openClient();
    client.socket.write('x');
    (await worker.side(0)).socket.terminate();
    await client.untilClosed();
  });

  test('that is answered with text is ended: the Worker did not take it for MQTT', async () => {
    await startGateway();
    const client = await openClient();
    client.socket.write('{}');
    (await worker.side(0)).socket.send('{"code":400}');
    await client.untilClosed();
    expect(client.received).toHaveLength(0);
  });
});

describe('a side that does not read', () => {
  test('the Worker: the device is read no further, and everything arrives once it reads', async () => {
    await startGateway();
    worker.onOpen = ({ socket }) => socket.pause();
    const client = await openClient();
    const sent = Buffer.alloc(32 * 1024 * 1024, 'u');
    client.socket.write(sent);
    const side = await worker.side(0);
    const before = await untilStill(() => gateway.metric('gateway_bytes_up_total'));
    // Beyond its own 64 KiB, what the buffers of the system's sockets hold.
    expect(before).toBeLessThan(16 * 1024 * 1024);
    side.socket.resume();
    await worker.changes.until('all bytes', () => side.receivedBytes === sent.length, 20_000);
  });

  test('the device: the Worker is read no further, and everything arrives once it reads', async () => {
    await startGateway();
    const client = await openClient();
    client.socket.write('x');
    const side = await worker.side(0);
    client.socket.pause();
    const frame = Buffer.alloc(64 * 1024, 'd');
    for (let index = 0; index < 512; index += 1) side.socket.send(frame);
    const before = await untilStill(() => gateway.metric('gateway_bytes_down_total'));
    expect(before).toBeLessThan(16 * 1024 * 1024);
    client.socket.resume();
    await client.until('all bytes', () => client.receivedBytes === 512 * frame.length);
  });

  test('the device, for longer than it may: both sides are ended', async () => {
    await startGateway({ UNREAD_SECONDS: '1' });
    const client = await openClient();
    client.socket.write('x');
    const side = await worker.side(0);
    client.socket.pause();
    const frame = Buffer.alloc(64 * 1024, 'd');
    for (let index = 0; index < 512; index += 1) side.socket.send(frame);
    await worker.changes.until('the end', () => side.closeCode !== undefined, 15_000);
    expect((await gateway.ask('/metrics')).text).toContain('gateway_connections_closed_total{by="unread"} 1');
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
