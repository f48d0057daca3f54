// What an operator sees of the gateway: its configuration, limits, certificates, health and metrics, and how it leaves.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { readConfig } from '../../mqtt-gateway/src/config.ts';
import { type Certificates, makeCertificates } from '../../rig/certificates.ts';
import { eventually } from '../../rig/changes.ts';
import { GatewayProcess, gatewaySecret, ServiceProcess } from '../../rig/services/processes.ts';
import { GatewayInside } from '../../rig/services/gateway-inside.ts';
import { findFreePort } from '../../rig/ports.ts';
import { makeTempDir } from '../../rig/temp-dirs.ts';
import { SocketServer } from '../../rig/services/socket-server.ts';
import { connectBytes, TcpClient } from '../../rig/clients/tcp-client.ts';

let worker: SocketServer;
let gateway: GatewayProcess | undefined;
let inside: GatewayInside | undefined;
const clients: TcpClient[] = [];

beforeEach(async () => {
  worker = await SocketServer.start();
});

afterEach(async () => {
  for (const { socket } of clients.splice(0)) socket.destroy();
  await gateway?.kill('SIGKILL');
  await inside?.stop();
  gateway = inside = undefined;
  await worker.stop();
});

async function startGateway(environment: Record<string, string> = {}): Promise<GatewayProcess> {
  gateway = await GatewayProcess.start(worker.url, environment);
  return gateway;
}

async function startInside(
  ...limits: Parameters<typeof GatewayInside.start> extends [string, ...infer Rest] ? Rest : never
) {
  inside = await GatewayInside.start(worker.url, ...limits);
  return inside;
}

/** @param isConnectSent without it the connection stays mute */
async function openClient({ port }: { port: number }, isConnectSent = false): Promise<TcpClient> {
  const client = await TcpClient.open(port);
  clients.push(client);
  if (isConnectSent) client.socket.write(connectBytes);
  return client;
}

/** Sends CONNECT and waits for what `answerAll` lets the Worker answer. */
async function untilAnswered(client: TcpClient): Promise<TcpClient> {
  client.socket.write(connectBytes);
  await client.until('the answer', () => client.receivedBytes > 0);
  return client;
}

const openAnswered = async (gate: { port: number }): Promise<TcpClient> => untilAnswered(await openClient(gate));

function answerAll(server = worker): void {
  server.onOpen = ({ socket }) => socket.once('message', () => socket.send(Buffer.from('answer')));
}

describe('configuration', () => {
  const complete = { WORKER_URL: 'https://api.test/', GATEWAY_SECRET: gatewaySecret };

  test('all problems are told at once, with what to do, and without the values of secrets', async () => {
    const refused = new ServiceProcess('gateway', {
      env: {
        WORKER_URL: 'ftp://x',
        GATEWAY_SECRET: 'too-short-but-secret',
        MQTT_PORT: '99999',
        TLS_CERT_FILE: '/does/not/exist',
        MAX_CONNECTIONS: 'many',
        LOG_LEVEL: 'loud',
      },
    });
    expect(await refused.untilExit()).toBe(2);
    const names = ['WORKER_URL', 'GATEWAY_SECRET', 'MQTT_PORT', 'TLS_KEY_FILE', 'MAX_CONNECTIONS', 'LOG_LEVEL'];
    for (const name of names) expect(refused.stderr).toContain(name);
    expect(refused.stderr).not.toContain('too-short-but-secret');
  });

  test.each([
    [{ MQTT_PORT: 'off' }, 'MQTT_PORT is off and there is no port for TLS'],
    [{ MQTT_TLS_PORT: '8883' }, 'TLS_CERT_FILE is missing'],
    [{ TLS_CERT_FILE: '/nowhere/cert.pem', TLS_KEY_FILE: '/nowhere/key.pem' }, 'TLS_CERT_FILE cannot be read (ENOENT)'],
    [{ WORKER_URL: 'https://user:hidden@api.test' }, 'must not hold a user name'],
    [{ WORKER_URL: 'http://api.test' }, 'WORKER_URL must be https:// or mqtts://'],
    [{ WORKER_URL: 'http://127.0.0.1.api.test' }, 'WORKER_URL must be https:// or mqtts://'],
    [{ GATEWAY_SECRET_FILE: '/nowhere/secret' }, 'both set'],
  ])('%o is refused: %s', (settings, problem) => {
    const config = readConfig({ ...complete, ...settings });
    expect('problems' in config ? config.problems.join('\n') : config).toContain(problem);
  });

  test('no secret goes without TLS to another machine, unless ALLOW_PLAINTEXT is 1', () => {
    for (const [url, more] of [
      ['http://localhost:8787', {}],
      ['http://[::1]:8787', {}],
      ['http://api.test', { ALLOW_PLAINTEXT: '1' }],
    ] as const)
      expect(readConfig({ ...complete, WORKER_URL: url, ...more })).toMatchObject({ worker: { url } });
  });

  test('a complete one is read with its defaults, a secret also from a file', () => {
    const file = join(makeTempDir('gateway'), 'secret');
    writeFileSync(file, `${gatewaySecret}\n`);
    expect(readConfig({ WORKER_URL: complete.WORKER_URL, GATEWAY_SECRET_FILE: file, HEALTH_PORT: '' })).toEqual({
      worker: { url: 'https://api.test', secret: gatewaySecret },
      host: undefined,
      tcpPort: 1883,
      tls: null,
      limits: {
        connections: 10_000,
        connectionsPerAddress: 1_000,
        unauthenticated: 1_000,
        unauthenticatedPerAddress: 100,
        handshakeMs: 10_000,
        idleMs: 5_400_000,
        unreadMs: 60_000,
      },
      drainMs: 5_000,
      health: undefined,
      log: { level: 'info', format: 'json' },
    });
  });

  test('a port that is taken is told', async () => {
    const refused = await startGateway({ MQTT_PORT: String(worker.port) });
    expect(await refused.untilExit()).toBe(2);
    expect((await refused.untilLogged('the gateway cannot start'))['cause']).toContain(`port ${worker.port}`);
  });
});

describe('limits', () => {
  test('MAX_CONNECTIONS: one more is closed at once, and taken when another has gone', async () => {
    answerAll();
    const full = await startGateway({ MAX_CONNECTIONS: '2' });
    const [first] = [await openClient(full, true), await openClient(full, true)];
    await eventually('two connections', async () => (await full.metric('gateway_connections')) === 2);
    await (await openClient(full, true)).untilClosed();
    expect((await full.ask('/metrics')).text).toContain('gateway_connections_refused_total{limit="connections"} 1');
    first.socket.end();
    await eventually('room', async () => (await full.metric('gateway_connections')) === 1);
    await openAnswered(full);
  });

  test('MAX_CONNECTIONS_PER_ADDRESS: no address has more, though the Worker answered the others', async () => {
    answerAll();
    const guarded = await startGateway({ MAX_CONNECTIONS_PER_ADDRESS: '2' });
    for (let index = 0; index < 2; index += 1) await openAnswered(guarded);
    await (await openClient(guarded, true)).untilClosed();
    expect((await guarded.ask('/metrics')).text).toContain('{limit="connections_per_address"} 1');
  });

  test('MAX_UNAUTHENTICATED_PER_ADDRESS: mute connections count, those that the Worker has answered do not', async () => {
    const guarded = await startGateway({ MAX_UNAUTHENTICATED_PER_ADDRESS: '2' });
    answerAll();
    for (let index = 0; index < 5; index += 1) await openAnswered(guarded);
    const mute = [await openClient(guarded), await openClient(guarded)];
    await eventually('both', async () => (await guarded.metric('gateway_connections_unauthenticated')) === 2);
    await (await openClient(guarded, true)).untilClosed();
    expect(worker.sides).toHaveLength(5);
    expect(mute.map(({ isClosed }) => isClosed)).toEqual([false, false]);
    expect(await guarded.metric('gateway_connections_refused_total')).toBe(1);
    await guarded.untilLogged('connection refused: too many');
  });

  test('MAX_UNAUTHENTICATED: the oldest of them makes room', async () => {
    const guarded = await startGateway({ MAX_UNAUTHENTICATED: '2' });
    const [oldest, second] = [await openClient(guarded), await openClient(guarded)];
    await eventually('both', async () => (await guarded.metric('gateway_connections_unauthenticated')) === 2);
    answerAll();
    await openAnswered(guarded);
    await oldest.untilClosed();
    expect(second.isClosed).toBe(false);
    expect((await guarded.ask('/metrics')).text).toContain('gateway_connections_closed_total{by="displaced"} 1');
  });

  test('a mute connection, a slow or half closed one, and one that the Worker leaves without an answer are closed', async () => {
    const guarded = await startInside({ handshakeMs: 1_000 });
    const [mute, unanswered] = [await openClient(guarded), await openClient(guarded, true)];
    const slow = await openClient(guarded);
    const drip = setInterval(() => slow.socket.write(Buffer.from([0xff])), 100);
    slow.socket.write(connectBytes.subarray(0, 9));
    const halfClosed = await openClient(guarded);
    halfClosed.socket.end(connectBytes.subarray(0, 9));
    await Promise.all([mute, unanswered, slow, halfClosed].map((client) => client.untilClosed()));
    clearInterval(drip);
    const side = await worker.side(0);
    await worker.changes.until('the end', () => side.closeCode !== undefined);
    expect(await guarded.readMetrics()).toContain('{by="handshake_timeout"} 3');
  });

  test('a connection on which nothing moves is closed', async () => {
    answerAll();
    const guarded = await startInside({ idleMs: 1_000 });
    const client = await openClient(guarded, true);
    await client.untilClosed();
    expect(await guarded.readMetrics()).toContain('{by="idle"} 1');
  });
});

describe('the Worker', () => {
  test.each([
    [401, 'the Worker does not let this gateway in', 503],
    [503, 'the Worker refused a connection', 503],
    [429, 'the Worker refused a connection', 200],
  ])('that answers %i: the device is closed, the log says "%s", readiness %i', async (status, line, readiness) => {
    worker.refuseWith = status;
    const guarded = await startGateway();
    expect((await guarded.ask('/readyz')).status).toBe(200);
    await (await openClient(guarded, true)).untilClosed();
    expect((await guarded.untilLogged(line))['alarm']).toBe(status === 401 ? true : undefined);
    expect((await guarded.ask('/readyz')).status).toBe(readiness);
    expect(await guarded.metric('gateway_worker_refusals_total')).toBe(1);
    expect((await guarded.ask('/healthz')).status).toBe(200);
    worker.refuseWith = undefined;
    answerAll();
    await openAnswered(guarded);
    expect((await guarded.ask('/readyz')).status).toBe(200);
  });

  test('that is away: devices are closed, and served once it is back', async () => {
    const port = await findFreePort();
    gateway = await GatewayProcess.start(`http://127.0.0.1:${port}`);
    await (await openClient(gateway, true)).untilClosed();
    await gateway.untilLogged('the Worker cannot be reached');
    expect((await gateway.ask('/readyz')).status).toBe(503);
    const back = await SocketServer.start(port);
    answerAll(back);
    const client = await openAnswered(gateway);
    await back.stop();
    await client.untilClosed();
  });
});

describe('TLS', () => {
  const servername = 'mqtt.example.test';
  let certificates: Certificates;
  let files: { TLS_CERT_FILE: string; TLS_KEY_FILE: string };
  let tlsPort: number;

  beforeEach(async () => {
    certificates = makeCertificates(servername);
    const dir = makeTempDir('gateway-tls');
    files = { TLS_CERT_FILE: join(dir, 'cert.pem'), TLS_KEY_FILE: join(dir, 'key.pem') };
    install(certificates);
    tlsPort = await findFreePort();
  });

  function install({ serverCert, serverKey }: Pick<Certificates, 'serverCert' | 'serverKey'>): void {
    writeFileSync(files.TLS_KEY_FILE, readFileSync(serverKey));
    writeFileSync(files.TLS_CERT_FILE, readFileSync(serverCert));
  }

  async function openTls({ ca }: Pick<Certificates, 'ca'>, maxVersion?: 'TLSv1.2'): Promise<TcpClient> {
    const client = await TcpClient.openTls(tlsPort, { ca: readFileSync(ca), servername, maxVersion });
    clients.push(client);
    return client;
  }

  const startWithTls = (environment: Record<string, string> = {}): Promise<GatewayProcess> =>
    startGateway({ ...files, MQTT_TLS_PORT: String(tlsPort), ...environment });

  test('is carried as TCP is', async () => {
    await startWithTls();
    const client = await openTls(certificates);
    client.socket.write(connectBytes);
    const side = await worker.side(0);
    await worker.changes.until('the bytes', () => side.received.equals(connectBytes));
    expect(side.headers['latchwork-device-address']).toBe('127.0.0.1');
    side.socket.send(Buffer.alloc(500_000, 'd'));
    side.socket.close(1000);
    await client.untilClosed();
    expect(client.receivedBytes).toBe(500_000);
  });

  test('lets no client ask for a second handshake on its connection', async () => {
    await startWithTls();
    const socket = (await openTls(certificates, 'TLSv1.2')).socket as TLSSocket;
    const ended = new Promise<Error | null>((resolve) => {
      socket.renegotiate({}, resolve);
      socket.once('error', resolve);
    });
    expect(await ended).toMatchObject({ message: expect.stringMatching(/no.renegotiation/i) as string });
  });

  test('new files are used for new connections, open ones stay, and files that do not fit change nothing', async () => {
    answerAll();
    const guarded = await startWithTls();
    const before = await untilAnswered(await openTls(certificates));

    const renewed = makeCertificates(servername);
    writeFileSync(files.TLS_CERT_FILE, readFileSync(renewed.serverCert));
    await guarded.untilLogged('the certificate files cannot be used, the certificate before them stays in use');
    await untilAnswered(await openTls(certificates));

    install(renewed);
    await guarded.untilLogged('new certificate in use');
    await untilAnswered(await openTls(renewed));
    expect(before.isClosed).toBe(false);
    expect((await openTls(certificates)).isClosed).toBe(true);
    expect(await guarded.metric('gateway_certificate_expires_seconds')).toBeGreaterThan(3_600);
  });

  test('a client that never finishes the handshake, or speaks no TLS, is closed and opens no WebSocket', async () => {
    const guarded = await startInside(
      { handshakeMs: 1_000 },
      { ...files, MQTT_TLS_PORT: String(tlsPort), MQTT_PORT: 'off' },
    );
    const [mute, slow, plain] = await Promise.all([1, 2, 3].map(() => openClient({ port: tlsPort })));
    plain!.socket.write(connectBytes);
    // The head of a record, and then a hello that does not end.
    slow!.socket.write(Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00]));
    const drip = setInterval(() => slow!.socket.write(Buffer.from([0x01])), 100);
    await Promise.all([mute!, slow!, plain!].map((client) => client.untilClosed()));
    clearInterval(drip);
    await eventually('no connection', async () => /^gateway_connections 0$/m.test(await guarded.readMetrics()));
    expect(worker.sides).toHaveLength(0);
  });
});

test('SIGTERM takes no connection, ends each at the Worker with what was sent, and ends the process', async () => {
  answerAll();
  const leaving = await startGateway({ DRAIN_SECONDS: '1' });
  for (let index = 0; index < 20; index += 1) await openAnswered(leaving);
  for (const { socket } of clients) socket.write('last');
  await eventually('all sent', () =>
    worker.sides.every(({ receivedBytes }) => receivedBytes === connectBytes.length + 4),
  );
  leaving.child.kill('SIGTERM');
  await leaving.untilLogged('leaving');
  await eventually('no listener', async () => (await openClient(leaving)).error !== undefined);
  expect(await leaving.untilExit()).toBe(0);
  await Promise.all(clients.map((client) => client.untilClosed()));
  expect(worker.sides.map(({ closeCode }) => closeCode)).toEqual(Array.from({ length: 20 }, () => 1012));
});
