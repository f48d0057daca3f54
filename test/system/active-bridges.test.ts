// Two active bridges between mosquitto and the built Worker, each with its share of the products. How they change places under
// load is in faults/active-bridges.ts.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { activate, addProduct, type Activation } from '../../rig/clients/accounts.ts';
import { askHealth, dataOf } from '../../rig/clients/api.ts';
import { bridgeSecret, makeSpoolDir, type BridgeProcess } from '../../rig/services/bridge-process.ts';
import { eventually } from '../../rig/changes.ts';
import { Mosquitto, mosquittoMissing } from '../../rig/brokers/mosquitto.ts';
import { MqttTestClient } from '../../rig/clients/mqtt-client.ts';
import { findFreePort } from '../../rig/ports.ts';
import { WorkerRig } from '../../rig/worker/worker-rig.ts';

const changedWithinMs = 40_000;

describe.skipIf(mosquittoMissing !== null)('two active bridges', () => {
  let rig: WorkerRig;
  let broker: Mosquitto;
  let devices: MqttTestClient;
  const bridges: { bridge: BridgeProcess; healthPort: number }[] = [];

  beforeAll(async () => {
    broker = await Mosquitto.start();
    rig = await WorkerRig.start({ vars: { BRIDGE_SHARES: '2' } });
    await startBridge();
    await untilServing(1, [0, 1]);
    await startBridge();
    await Promise.all([untilServing(1, [0]), untilServing(2, [1])]);
    await rig.untilHealthy();
    devices = await MqttTestClient.open(broker.url, {});
  });
  afterAll(async () => {
    await devices.leave();
    await rig.stop();
    await broker.stop();
  });

  async function startBridge(): Promise<void> {
    const healthPort = await findFreePort();
    const environment = { BRIDGE_ID: `bridge-${bridges.length + 1}`, HEALTH_PORT: String(healthPort) };
    const bridge = rig.startBridge({ mqttUrl: broker.url, spoolDir: makeSpoolDir(), environment });
    bridges.push({ bridge, healthPort });
  }

  /** @param number from 1 on */
  async function untilServing(number: number, shares: number[]): Promise<void> {
    const { bridge } = bridges[number - 1]!;
    await bridge.changes.until(
      () => `bridge ${number} serves ${shares.join()}; ${bridge.lastWords}`,
      () => bridge.isBrokerConnected && String(bridge.states.at(-1)?.['shares']) === shares.join(),
      changedWithinMs,
    );
  }

  async function readProducts(share: number): Promise<string[]> {
    const headers = { authorization: `Bearer ${bridgeSecret}` };
    const answer = await fetch(`${rig.url}/bridge/products?share=${share}`, { headers });
    return ((await answer.json()) as { data: { productKeys: string[] } }).data.productKeys;
  }

  async function countReceived(): Promise<number[]> {
    return Promise.all(
      bridges.map(async ({ healthPort }) => {
        const text = await (await fetch(`http://127.0.0.1:${healthPort}/metrics`)).text();
        return Number(/^bridge_messages_received_total (\d+)$/m.exec(text)?.[1]);
      }),
    );
  }

  const report = ({ topics }: Activation, params: object): Promise<void> =>
    devices.tryPublish(topics.propertyPost, { method: 'thing.event.property.post', params });

  /** A device of each share, of products that are made here. */
  async function makeDeviceOfEach(): Promise<[Activation, Activation]> {
    const made: (Activation | undefined)[] = [undefined, undefined];
    while (made.includes(undefined)) {
      const productKey = await addProduct(rig.owner);
      const share = (await readProducts(0)).includes(productKey) ? 0 : 1;
      expect((await readProducts(1 - share)).includes(productKey)).toBe(false);
      made[share] ??= await activate(rig.owner.api, productKey, 'SHARE-1');
    }
    return made as [Activation, Activation];
  }

  test('each bring what devices of their products send, from the first message of a product that was just made', async () => {
    const [first, second] = await makeDeviceOfEach();
    const watch = await rig.watch(first, second);
    // The service announces each as online; a bridge does not hear what it publishes itself.
    const before = await countReceived();
    await report(first, { position: 'up', n: 1 });
    for (const n of [1, 2, 3]) await report(second, { position: 'up', n });
    await watch.untilPushed(first.topics.propertyPost);
    await watch.untilPushed(second.topics.propertyPost, (payload) => JSON.stringify(payload).includes('"n":3'));
    const received = (await countReceived()).map((count, index) => count - before[index]!);
    expect(received).toEqual([1, 3]);
    await rig.untilStatus(first.deviceId, ({ online }) => online);
  });

  test('bring commands to devices of all products', async () => {
    const both = await makeDeviceOfEach();
    for (const { topics, deviceId } of both) {
      await devices.trySubscribe(topics.propertySet);
      const json = { action: 'toggle' as const, position: 'down' as const };
      await dataOf(
        rig.owner.api.devices[':deviceId'].control.$post({ header: {}, query: {}, param: { deviceId }, json }),
      );
      await devices.untilHeard(topics.propertySet);
    }
  });

  test('are missed one by one; a new product has to wait for its own', async () => {
    const [ofFirst] = await makeDeviceOfEach();
    await bridges[1]!.bridge.kill('SIGTERM');
    await untilServing(1, [0, 1]);
    await bridges[0]!.bridge.kill('SIGTERM');
    await eventually('the missing parts', async () => {
      const missing = await askHealth(rig.url);
      return ['bridge 0', 'broker 0', 'bridge 1', 'broker 1'].every((part) => missing?.includes(part));
    });
    const productKey = await addProduct(rig.owner);
    await expect(activate(rig.owner.api, productKey, 'SHARE-1')).rejects.toThrow('broker_unavailable');
    const known = ofFirst.topics.propertyPost.split('/')[2]!;
    expect(await activate(rig.owner.api, known, 'SHARE-2')).toMatchObject({ deviceId: expect.any(String) as string });
  });
});
