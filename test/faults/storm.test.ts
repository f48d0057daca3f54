// Many devices of one address that come at once, and come back at once after the gateway was killed; and one that sends and
// never reads beside one that behaves. The Worker and the gateway are the real ones.
import mqtt, { type MqttClient } from 'mqtt';
import { afterEach, expect, test } from 'vitest';
import type { Activation } from '../../rig/clients/accounts.ts';
import { eventually } from '../../rig/changes.ts';
import type { GatewayProcess } from '../../rig/services/processes.ts';
import { WholeService } from '../../rig/services/whole-service.ts';
import { MqttTestClient } from '../../rig/clients/mqtt-client.ts';
import { connectBytesOf, TcpClient } from '../../rig/clients/tcp-client.ts';

let service: WholeService<GatewayProcess>;
const clients: MqttClient[] = [];

afterEach(async () => {
  for (const client of clients.splice(0)) client.end(true);
  await service.stop();
});

/** Retries for as long as it takes, as firmware does. */
function startDevice({ mqtt: login }: Activation): MqttClient {
  const client = mqtt.connect(service.rig.mqttUrl, {
    ...{ username: login.username, password: login.password, clientId: login.clientId },
    ...{ protocolVersion: 4, clean: true, keepalive: login.keepAlive, reconnectPeriod: 300, queueQoSZero: false },
  });
  client.on('error', () => undefined);
  clients.push(client);
  return client;
}

test('more devices of one address than may be unauthenticated at once are all served, also after a kill', async () => {
  service = await WholeService.startWithGateway({}, { MAX_UNAUTHENTICATED_PER_ADDRESS: '20' });
  const devices = await service.rig.activateMany(150);
  const areAllIn = async () =>
    clients.every(({ connected }) => connected) &&
    (await service.entry.metric('gateway_connections')) === devices.length &&
    (await service.entry.metric('gateway_connections_unauthenticated')) === 0;
  const howMany = () => `${clients.filter(({ connected }) => connected).length} of ${devices.length} connected`;
  for (const device of devices) startDevice(device);
  await eventually(howMany, areAllIn);
  expect(await service.entry.metric('gateway_connections_refused_total')).toBeGreaterThan(0);

  await service.entry.kill('SIGKILL');
  await service.restartEntry();
  await eventually(howMany, areAllIn);
  await Promise.all(
    clients.map((client, index) =>
      client.publishAsync(devices[index]!.topics.propertyPost, '{"params":{"position":"down"}}', { qos: 1 }),
    ),
  );
  for (const { deviceId } of [devices[0]!, devices.at(-1)!]) {
    await service.rig.untilStatus(deviceId, ({ online, position }) => online && position === 'down');
  }
});

test('a device that sends without reading holds up no other, and costs the gateway no memory', async () => {
  service = await WholeService.startWithGateway({});
  const [greedy, modest] = [await service.rig.activate('greedy'), await service.rig.activate('modest')];
  const memory = () => service.entry.metric('gateway_process_resident_memory_bytes');
  const device = await MqttTestClient.ofDevice(service.rig.mqttUrl, modest);
  const before = await memory();
  const flood = await TcpClient.open(service.rig.mqttPort);
  flood.socket.write(connectBytesOf(greedy.mqtt));
  await flood.until('CONNACK', () => flood.receivedBytes >= 4);
  expect(flood.received.subarray(0, 4)).toEqual(Buffer.from([0x20, 2, 0, 0]));
  flood.socket.pause();
  const pings = Buffer.alloc(64 * 1024, Buffer.from([0xc0, 0x00]));
  for (let sent = 0; sent < 512 && !flood.isClosed; sent += 1) flood.socket.write(pings);
  await device.client.publishAsync(modest.topics.propertyPost, '{"params":{"position":"up"}}', { qos: 1 });
  await service.rig.untilStatus(modest.deviceId, ({ online, position }) => online && position === 'up');
  expect((await memory()) - before).toBeLessThan(64 * 1024 * 1024);
  flood.socket.destroy();
  await device.leave();
});
