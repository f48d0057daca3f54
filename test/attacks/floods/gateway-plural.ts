// More connections of one address at the gateway than it has places for it, each of a device with a right login.
import { connect, type Socket } from 'node:net';
import mqtt from 'mqtt';
import { generate } from 'mqtt-packet';
import type { Activation } from '../../../rig/clients/accounts.ts';
import { placesOfAddress, Tally, type Attack, type Target } from '../rig/attack.ts';
import { nameOfError, send, times } from '../rig/traffic.ts';

const honestWithinMs = 10_000;

/** One who behaves, from an address of his own: whether he gets in and is answered. */
async function visit({ gatewayPort, own }: Target, tally: Tally): Promise<void> {
  const device = own.devices[7]!;
  const { username, password, clientId } = device.mqtt;
  const startedAtMs = performance.now();
  try {
    const login = { username, password, clientId, connectTimeout: honestWithinMs, reconnectPeriod: 0 };
    const client = await mqtt.connectAsync(`mqtt://127.0.0.1:${gatewayPort}`, login, false);
    await client.publishAsync(device.topics.propertyPost, '{"id":"1","params":{"position":"up"}}', { qos: 1 });
    await client.endAsync(true);
    tally.note('a device is served');
  } catch (error) {
    const ms = Math.round(performance.now() - startedAtMs);
    tally.problem(`a device that behaves is not served: ${nameOfError(error)} after ${ms} ms`);
  }
}

export const gatewayPlural: Attack[] = [
  {
    name: 'gateway-plural',
    title: 'more devices of one address than the gateway has places for it, each with a login that is right',
    holds: 'refused beyond the share of the address; a device from elsewhere is served',
    isOnce: true,
    run: async (target) => {
      const tally = new Tally();
      const { gatewayPort: port, own, url } = target;
      const held: Socket[] = [];
      await times(8, 1.1 * placesOfAddress, async (number) => {
        const body = JSON.stringify({ productKey: own.productKey, deviceSN: `PLURAL-${number}` });
        const answer = await send(`${url}/api/v1/devices/activate`, { method: 'POST', body, address: '192.0.2.99' });
        const { username, password, clientId } = (JSON.parse(answer.text) as { data: Activation }).data.mqtt;
        const socket = connect({ port, host: '127.0.0.1', localAddress: '127.2.0.2' });
        held.push(socket);
        const login = { username, clientId, password: Buffer.from(password) };
        socket.write(generate({ cmd: 'connect', protocolId: 'MQTT', protocolVersion: 4, clean: true, ...login }));
        const end = (event: string, how: string) =>
          new Promise((resolve) => void socket.once(event, () => resolve(how)));
        tally.note(
          String(await Promise.race([end('data', 'let in'), end('error', 'refused'), end('close', 'refused')])),
        );
      });
      await visit(target, tally);
      if (tally.of('let in') > placesOfAddress) tally.problem(`one address got ${tally.of('let in')} connections`);
      if (tally.of('let in') < placesOfAddress / 2) tally.problem('devices of one address are not served');
      for (const socket of held) socket.destroy();
      return tally.result();
    },
  },
];
