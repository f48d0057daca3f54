// The virtual device as others rely on it: stock firmware's manners, seen from a real broker that lets everybody in
// and a small HTTP server that activates.
import { once } from 'node:events';
import { createServer as createHttpServer, type Server } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { Aedes, type AedesPublishPacket, type Client } from 'aedes';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { type DeviceEvent, VirtualDevice, type VirtualDeviceOptions } from '../../../dev/virtual-device.ts';
import { initialState, moveSwitch } from '../../../console/src/switch/moves.ts';

const topic = (action: string) => `/sys/pk/dev_00000001/${action}`;
const postTopic = topic('thing/event/property/post');
const setTopic = topic('thing/service/property/set');
const name = 'pk&dev_00000001';

let aedes: Aedes;
let apiUrl: string;
let http: Server;
let closeTcp: () => void;
/** What the activation server answers, in order; the last one stays. */
let answers: { code: number; message: string }[] = [];
const activations: Record<string, unknown>[] = [];
const logins: { client: Client; will: unknown; username: string | undefined; password: string | undefined }[] = [];
const published: { body: Record<string, unknown>; qos: number; retain: boolean; topic: string }[] = [];
const devices: VirtualDevice[] = [];

beforeAll(async () => {
  aedes = await Aedes.createBroker({
    authenticate: (client, username, password, done) => {
      logins.push({ client, will: Reflect.get(client, '_will'), username, password: password?.toString() });
      done(null, true);
    },
  });
  aedes.on('publish', ({ topic: on, payload, qos, retain }: AedesPublishPacket, client) => {
    if (client === null) return;
    published.push({ body: JSON.parse(payload.toString()) as Record<string, unknown>, qos, retain, topic: on });
  });
  const tcp = createTcpServer((socket) => aedes.handle(socket)).listen(0, '127.0.0.1');
  await once(tcp, 'listening');
  closeTcp = () => tcp.close();
  const { port } = tcp.address() as AddressInfo;

  http = createHttpServer((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => (text += chunk.toString()));
    request.on('end', () => {
      activations.push(JSON.parse(text) as Record<string, unknown>);
      const answer = (answers.length > 1 ? answers.shift() : answers[0]) ?? { code: 200, message: 'success' };
      const data = answer.code === 200 ? activationResult(port) : null;
      response.writeHead(answer.code).end(JSON.stringify({ ...answer, data }));
    });
  }).listen(0, '127.0.0.1');
  await once(http, 'listening');
  apiUrl = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
});

afterEach(async () => {
  await Promise.all(devices.splice(0).map((device) => device.stop()));
  answers = [];
  for (const list of [activations, logins, published]) list.length = 0;
});

afterAll(async () => {
  http.close();
  closeTcp();
  await new Promise<void>((resolve) => aedes.close(resolve));
});

function activationResult(port: number) {
  const mqtt = {
    server: '127.0.0.1',
    port,
    portTLS: 8883,
    username: name,
    password: 'tk_1',
    clientId: name,
    keepAlive: 60,
  };
  const topics = { propertyPost: postTopic, propertySet: setTopic, status: topic('status') };
  return { deviceId: 'dev_00000001', deviceSecret: 'sk_1', mqtt, topics };
}

async function startDevice(options: Partial<VirtualDeviceOptions> = {}): Promise<DeviceEvent[]> {
  const events: DeviceEvent[] = [];
  const onEvent = (event: DeviceEvent) => events.push(event);
  const device = new VirtualDevice({ apiUrl, productKey: 'pk', serial: 'SN-1', onEvent, ...options });
  devices.push(device);
  const subscribed = new Promise<void>((resolve) => aedes.once('subscribe', () => resolve()));
  await device.start();
  await subscribed;
  await vi.waitFor(() => expect(published).toHaveLength(1));
  return events;
}

function send(payload: string): void {
  aedes.publish({ cmd: 'publish', topic: setTopic, payload, qos: 1, retain: false, dup: false }, (error) =>
    expect(error ?? null).toBeNull(),
  );
}

function sendCommand(id: string, params: Record<string, unknown>): void {
  send(JSON.stringify({ method: 'thing.service.property.set', id, params, time: 1 }));
}

describe('joining', () => {
  test('it logs in as stock firmware does and reports without a clock', async () => {
    await startDevice();
    expect(activations).toEqual([
      {
        productKey: 'pk',
        deviceSN: 'SN-1',
        firmwareVersion: expect.any(String) as unknown,
        chipModel: expect.any(String) as unknown,
      },
    ]);
    expect(logins).toHaveLength(1);
    expect(logins[0]).toMatchObject({ username: name, password: 'tk_1', will: undefined });
    expect(logins[0]?.client).toMatchObject({ id: name, version: 4, clean: true });
    const { position, angle } = initialState;
    expect(published[0]).toEqual({
      topic: postTopic,
      qos: 0,
      retain: false,
      body: {
        method: 'thing.event.property.post',
        id: '1',
        params: { position, angle, wifi_rssi: expect.any(Number) as unknown },
      },
    });
  });

  test('a cut connection is followed by a login with the same credentials, without activating again', async () => {
    await startDevice();
    logins[0]?.client.conn.destroy();
    await vi.waitFor(() => expect(logins).toHaveLength(2), 5_000);
    expect(logins[1]).toMatchObject({ username: name, password: 'tk_1' });
    expect(activations).toHaveLength(1);
  });
});

describe('obeying', () => {
  test('a command is answered on the property-post topic with its own identifier, then the new state', async () => {
    const events = await startDevice();
    sendCommand('abc123', { action: 'toggle', position: 'down' });
    await vi.waitFor(() => expect(published).toHaveLength(3));
    const [, reply, report] = published;
    expect(reply).toMatchObject({
      topic: postTopic,
      qos: 0,
      body: { method: 'thing.service.property.set_reply', id: 'abc123', code: 200 },
    });
    expect(report?.body).toMatchObject({ method: 'thing.event.property.post', params: { position: 'down', angle: 0 } });
    const kinds = events.map(({ type }) => type).filter((type) => type === 'commanded' || type === 'replied');
    expect(kinds).toEqual(['commanded', 'replied']);
  });

  test('a pulse goes back after its duration', async () => {
    await startDevice();
    sendCommand('p', { action: 'pulse', duration: 80 });
    await vi.waitFor(() => expect(published).toHaveLength(4));
    const positions = published.map(({ body }) => (body['params'] as { position?: string } | undefined)?.position);
    expect(positions).toEqual(['up', undefined, 'down', 'up']);
  });

  test('what does not fit its buffer or is not a command is passed over', async () => {
    await startDevice();
    sendCommand('x'.repeat(200), { action: 'toggle' });
    send('not json');
    send('[]');
    send('{"method":"thing.service.property.set"}');
    sendCommand('last', { action: 'trigger' });
    await vi.waitFor(() => expect(published).toHaveLength(3));
    expect(published[1]?.body['id']).toBe('last');
  });

  test('the switch knows every control parameter of the contract', () => {
    const from = { position: 'up', angle: 180 } as const;
    const cases: [Record<string, unknown>, ReturnType<typeof moveSwitch>][] = [
      [{ action: 'toggle', position: 'middle' }, { state: { position: 'middle', angle: 90 } }],
      [{ action: 'toggle' }, { state: { position: 'middle', angle: 90 } }],
      [
        { action: 'pulse', duration: 1200 },
        { state: { position: 'down', angle: 0 }, backAfterMs: 1200 },
      ],
      [{ action: 'pulse' }, { state: { position: 'down', angle: 0 }, backAfterMs: 500 }],
      [{ action: 'trigger' }, { state: from }],
      [{ switch: true }, { state: from }],
      [{ switch: false }, { state: { position: 'down', angle: 0 } }],
      [{ angle: 60 }, { state: { position: 'middle', angle: 60 } }],
      [{ switch: true, angle: 10 }, { state: { position: 'down', angle: 10 } }],
      [{ dance: 1 }, undefined],
    ];
    for (const [params, expected] of cases) expect(moveSwitch(from, params)).toEqual(expected);
    // A pulse always shows: it presses towards the side where the switch is not.
    expect(moveSwitch({ position: 'down', angle: 0 }, { action: 'pulse' })?.state).toEqual(from);
  });
});
