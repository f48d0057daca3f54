// Debian's mosquitto as a bridge to a home, over TLS through the gateway, with the lines of examples/home: devices stand on its own
// topics, presses travel, and nothing stale stays when either side was away.
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Mosquitto, mosquittoMissing } from '../../rig/brokers/mosquitto.ts';
import { makeCertificates } from '../../rig/certificates.ts';
import { dataOf } from '../../rig/clients/api.ts';
import { HomeClient, makeHomeKey, type HomeKey } from '../../rig/clients/home-client.ts';
import { SwitchDevice } from '../../rig/clients/switch-device.ts';
import { findFreePort } from '../../rig/ports.ts';
import type { GatewayProcess } from '../../rig/services/processes.ts';
import { WholeService } from '../../rig/services/whole-service.ts';

const example = new URL('../../examples/home/mosquitto-bridge.conf', import.meta.url);

describe.skipIf(mosquittoMissing !== null)(`mosquitto as a bridge (${mosquittoMissing ?? 'installed'})`, () => {
  let service: WholeService<GatewayProcess>;
  let mosquitto: Mosquitto;
  let key: HomeKey;
  let lamp: SwitchDevice;
  let spare: SwitchDevice;

  beforeAll(async () => {
    const { ca, serverCert, serverKey } = makeCertificates('localhost');
    const tlsPort = await findFreePort();
    const tls = { MQTT_TLS_PORT: String(tlsPort), TLS_CERT_FILE: serverCert, TLS_KEY_FILE: serverKey };
    service = await WholeService.startWithGateway({}, tls);
    key = await makeHomeKey(service.rig.owner.api);
    [lamp, spare] = (await Promise.all(
      ['lamp', 'spare'].map(async (name) => SwitchDevice.connect(service.rig.url, await service.rig.activate(name))),
    )) as [SwitchDevice, SwitchDevice];
    await lamp.report({ position: 'down' });
    const lines = readFileSync(example, 'utf8')
      .replace('HOST:8883', `localhost:${tlsPort}`)
      .replace('bridge_capath /etc/ssl/certs', `bridge_cafile ${ca}`)
      .replace('username KEY_ID', `username ${key.keyId}`)
      .replace('password API_KEY', `password ${key.apiKey}`);
    mosquitto = await Mosquitto.start(`${lines}\nrestart_timeout 1`);
  });
  afterAll(async () => {
    await mosquitto.stop();
    await Promise.all([lamp, spare].map((device) => device.leave()));
    await service.stop();
  });

  /** A client of mosquitto that comes now: it hears what is retained there. */
  async function comeToMosquitto(): Promise<HomeClient> {
    const client = await HomeClient.open(mosquitto.url, key);
    await client.follow();
    return client;
  }
  const linkOf = (client: HomeClient) =>
    client.mqtt.heard.findLast(({ topic }) => topic === 'latchwork/bridge/state')?.payload;

  it('discovery and state stand on its own topics and stay up to date there', async () => {
    const first = await comeToMosquitto();
    await first.untilState(lamp.deviceId, { position: 'down' });
    await first.until('the link', () => linkOf(first) === '1');
    await lamp.report({ position: 'up' });
    await first.untilState(lamp.deviceId, { position: 'up' });
    const second = await comeToMosquitto();
    await second.untilState(lamp.deviceId, { position: 'up' });
    expect(second.mqtt.heard.every(({ retain }) => retain)).toBe(true);
    expect(second.last(lamp.deviceId, 'config')).toMatchObject({ dev: { ids: [`latchwork_${lamp.deviceId}`] } });
    await Promise.all([first.leave(), second.leave()]);
  });

  it('presses travel back', async () => {
    const client = await comeToMosquitto();
    await client.order(lamp.deviceId, 'set', 'middle');
    await client.untilState(lamp.deviceId, { position: 'middle', outcome: 'confirmed' });
    expect(lamp.commands.map(({ params }) => params)).toEqual([{ action: 'toggle', position: 'middle' }]);
    await client.leave();
  });

  it('while the gateway is away devices are unavailable; afterwards all is true, and a press of that time stays undone', async () => {
    const client = await comeToMosquitto();
    await client.until('discovery', () => client.last(spare.deviceId, 'state') !== undefined);
    await service.entry.kill('SIGKILL');
    await client.until('the lost link', () => linkOf(client) === '0');
    await client.order(lamp.deviceId, 'set', 'up');
    await lamp.report({ position: 'down' });
    await dataOf(service.rig.owner.api.devices[':deviceId'].$delete({ param: { deviceId: spare.deviceId } }));
    await service.restartEntry();
    await client.until('the link again', () => linkOf(client) === '1');
    await client.untilState(lamp.deviceId, { position: 'down' });
    await client.until('the removal', () => client.last(spare.deviceId, 'config') === null);
    const later = await comeToMosquitto();
    await later.untilState(lamp.deviceId, { position: 'down' });
    expect(later.last(spare.deviceId, 'config')).toBeUndefined();
    expect(lamp.commands).toHaveLength(1);
    await Promise.all([client.leave(), later.leave()]);
  });

  it('a restart of mosquitto leaves nothing stale', async () => {
    await mosquitto.stop();
    await lamp.report({ position: 'up' });
    await mosquitto.startAgain();
    const client = await comeToMosquitto();
    await client.untilState(lamp.deviceId, { position: 'up' });
    await client.until('the link', () => linkOf(client) === '1');
    await client.leave();
  });

  it('ends with its key', async () => {
    const client = await comeToMosquitto();
    await client.until('the link', () => linkOf(client) === '1');
    await dataOf(service.rig.owner.api.users['api-keys'][':keyId'].$delete({ param: { keyId: key.keyId } }));
    await client.until('the end', () => linkOf(client) === '0');
    await client.leave();
  });
});
