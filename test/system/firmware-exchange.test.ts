// The exchange of examples/esp32 with the service, byte for byte, over plain sockets. It activates in separate segments and
// speaks MQTT 3.1.1 as stock PubSubClient does, with its buffer of 256 bytes.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { addProduct } from '../../rig/clients/accounts.ts';
import { dataOf } from '../../rig/clients/api.ts';
import { TcpClient } from '../../rig/clients/tcp-client.ts';
import { eventually } from '../../rig/changes.ts';
import { WholeService } from '../../rig/services/whole-service.ts';

const bufferBytes = 256;
/** What the library keeps free in front of a packet. */
const headerBytes = 5;

type Activation = { mqtt: { server: string; port: number; clientId: string; username: string; password: string } };

let service: WholeService;
beforeAll(async () => {
  service = await WholeService.start({});
});
afterAll(() => service.stop());

/** A packet whose length fits two bytes, as everything does that fits the buffer. */
async function takePacket(wire: TcpClient): Promise<Buffer> {
  const start = await wire.take(2);
  const low = start[1] ?? 0;
  const more = low < 0x80 ? Buffer.alloc(0) : await wire.take(1);
  const length = (low & 0x7f) + (more[0] ?? 0) * 128;
  return Buffer.concat([start, more, await wire.take(length)]);
}

const text = (value: string) =>
  Buffer.concat([Buffer.from([value.length >> 8, value.length & 0xff]), Buffer.from(value)]);

function packet(type: number, ...parts: Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  expect(body.length + headerBytes).toBeLessThanOrEqual(bufferBytes);
  const length = body.length < 128 ? [body.length] : [(body.length & 0x7f) | 0x80, body.length >> 7];
  return Buffer.concat([Buffer.from([type, ...length]), body]);
}

/** As HTTPClient of the Arduino core sends it: HTTP/1.1 without keep-alive, header and body in segments of their own. */
async function activate(productKey: string, deviceSN: string): Promise<Activation> {
  const wire = await TcpClient.open(service.rig.port);
  const body = `{"productKey":"${productKey}","deviceSN":"${deviceSN}","firmwareVersion":"1.0.0","chipModel":"ESP32"}`;
  wire.socket.write(
    `POST /api/v1/devices/activate HTTP/1.1\r\nHost: 127.0.0.1:${service.rig.port}\r\nUser-Agent: ESP32HTTPClient\r\n` +
      'Connection: close\r\nAccept-Encoding: identity;q=1,chunked;q=0.1,*;q=0\r\nContent-Type: application/json\r\n' +
      `Content-Length: ${body.length}\r\n\r\n`,
  );
  wire.socket.write(body);
  await wire.untilClosed();
  const answer = wire.received.toString();
  expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
  expect(answer.toLowerCase()).not.toContain('content-encoding');
  const json = /\{.*\}/s.exec(answer)?.[0] ?? '';
  expect(json.length).toBeLessThan(1536);
  return (JSON.parse(json) as { data: Activation }).data;
}

/** Level 4, clean session, user name and password, keep-alive 60. */
const connectPacket = ({ clientId, username, password }: Activation['mqtt']) =>
  packet(0x10, text('MQTT'), Buffer.from([4, 0xc2, 0, 60]), text(clientId), text(username), text(password));

it.each([
  ['a short product key', () => addProduct(service.rig.owner)],
  ['the longest one', () => addProduct(service.rig.owner, { productKey: 'k'.repeat(64) })],
])('with %s: activation, login, report, command and reply', async (_, product) => {
  const productKey = await product();
  const { mqtt } = await activate(productKey, 'SN-1');
  const base = `/sys/${mqtt.clientId.replace('&', '/')}`;
  const deviceId = mqtt.clientId.split('&')[1] ?? '';
  const param = { deviceId };
  const wire = await TcpClient.open(mqtt.port);
  expect(mqtt.server).toBe('127.0.0.1');

  wire.socket.write(connectPacket(mqtt));
  expect(await takePacket(wire)).toEqual(Buffer.from([0x20, 2, 0, 0]));

  wire.socket.write(packet(0x82, Buffer.from([0, 2]), text(`${base}/thing/service/property/set`), Buffer.from([1])));
  expect(await takePacket(wire)).toEqual(Buffer.from([0x90, 3, 0, 2, 1]));

  const report = '{"method":"thing.event.property.post","id":"1","params":{"position":"middle","wifi_rssi":-61}}';
  wire.socket.write(packet(0x30, text(`${base}/thing/event/property/post`), Buffer.from(report)));
  await service.rig.untilStatus(deviceId, ({ online, position }) => online && position === 'middle');

  const json = { action: 'toggle', position: 'up' };
  const call = service.rig.owner.api.devices[':deviceId'].control.$post({
    param,
    query: { wait: '10' },
    header: {},
    json,
  });
  const sent = dataOf(call);
  const command = await takePacket(wire);
  expect(command.length).toBeLessThanOrEqual(bufferBytes);
  const topic = `${base}/thing/service/property/set`;
  const bodyAt = command.indexOf('{');
  const body = JSON.parse(command.subarray(bodyAt).toString()) as { id: string };
  expect(body).toMatchObject({ method: 'thing.service.property.set', params: json });
  expect(command[0]).toBe(0x32);
  expect(command.subarray(3, bodyAt - 2)).toEqual(text(topic));
  const packetId = command.subarray(bodyAt - 2, bodyAt);
  wire.socket.write(Buffer.concat([Buffer.from([0x40, 2]), packetId]));
  const reply = `{"method":"thing.service.property.set_reply","id":"${body.id}","code":200}`;
  wire.socket.write(packet(0x30, text(`${base}/thing/service/property/set_reply`), Buffer.from(reply)));
  expect(await sent).toMatchObject({ state: 'acknowledged' });

  wire.socket.write(Buffer.from([0xc0, 0]));
  expect(await takePacket(wire)).toEqual(Buffer.from([0xd0, 0]));
  wire.socket.write(Buffer.from([0xe0, 0]));
  await service.rig.untilStatus(deviceId, ({ online }) => !online);
  wire.socket.destroy();
});

it('a wrong password: CONNACK 4 or 5, and the owner sees why', async () => {
  const { mqtt } = await activate(await addProduct(service.rig.owner), 'SN-1');
  const param = { deviceId: mqtt.clientId.split('&')[1] ?? '' };
  const wire = await TcpClient.open(mqtt.port);
  wire.socket.write(connectPacket({ ...mqtt, clientId: 'my-own-name' }));
  const [type, length, , code] = await takePacket(wire);
  expect([type, length]).toEqual([0x20, 2]);
  expect([2, 4, 5]).toContain(code);
  wire.socket.destroy();
  await eventually('the refused login', async () => {
    const { list } = await dataOf(service.rig.owner.api.devices[':deviceId'].events.$get({ param, query: {} }));
    return list.some(({ status, reason }) => status === 'login_refused' && reason === 'wrong_client_id');
  });
});

it('fits as much as the guide to firmware says', () => {
  const room = (topicBytes: number) => bufferBytes - headerBytes - 2 - topicBytes;
  const topicOf = (keyLength: number, action: string) => '/sys/'.length + keyLength + 1 + 12 + 1 + action.length;
  expect(room(topicOf(64, 'thing/event/property/post'))).toBe(141);
  expect(room(topicOf(12, 'thing/event/property/post'))).toBe(193);
  const connectBytes = (keyLength: number) => headerBytes + 10 + 2 * (2 + keyLength + 1 + 12) + 2 + 51;
  const willBytes = (keyLength: number) => 2 + topicOf(keyLength, 'status') + 2 + '{"status":"offline"}'.length;
  expect(connectBytes(64)).toBe(226);
  expect(connectBytes(36) + willBytes(36)).toBeLessThanOrEqual(bufferBytes);
  expect(connectBytes(37) + willBytes(37)).toBeGreaterThan(bufferBytes);
});
