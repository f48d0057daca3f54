// What the broker delivers again: new where it was lost on its first way, old where it had arrived. The two look alike,
// and a switch that is moved up, down and up says the same thing twice.
import { afterEach, describe, expect, test } from 'vitest';
import { TcpProxy } from '../../rig/clients/tcp-proxy.ts';
import type { Device } from '../../rig/clients/mqtt-client.ts';
import type { BridgeProcess } from '../../rig/services/processes.ts';
import { BridgeRig } from '../../rig/services/bridge-rig.ts';
import { Mosquitto, mosquittoMissing } from '../../rig/brokers/mosquitto.ts';

describe.skipIf(mosquittoMissing !== null)('with mosquitto', () => {
  let rig: BridgeRig<Mosquitto>;
  let leg: TcpProxy;
  let bridge: BridgeProcess;
  let device: Device;
  afterEach(async () => {
    await rig.close();
    await leg.stop();
  });

  async function open(): Promise<void> {
    rig = await BridgeRig.start(await Mosquitto.start());
    leg = await TcpProxy.start(rig.broker.port);
    bridge = rig.startBridge({ MQTT_URL: `mqtt://127.0.0.1:${leg.port}` });
    await rig.worker.untilActive();
    device = await rig.connectDevice('d1');
    for (const word of ['up', 'down']) await device.report(word);
    await untilEffects('up', 'down');
  }

  const untilEffects = (...effects: string[]): Promise<void> =>
    rig.worker.changes.until(
      () => `${effects.join()}: there is ${rig.worker.effects.join()}`,
      () => rig.worker.effects.join() === effects.join(),
    );

  /** The broker has it and sends it, and it is lost with the connection. */
  async function loseOnItsWay(word: string): Promise<void> {
    leg.cut('stall');
    await device.report(word);
    leg.heal(true);
  }

  test('a repeated word that was lost on its way is not taken for the earlier one', async () => {
    await open();
    await loseOnItsWay('up');
    await untilEffects('up', 'down', 'up');
    const items = rig.worker.batches.flatMap((batch) => batch.items);
    expect(items.at(-1)).toMatchObject({ payload: 'up', dup: true, soleReader: true });
  });

  test('nor after the link was lost as well, where no other bridge was active meanwhile', async () => {
    await open();
    leg.cut('stall');
    rig.worker.cutLinks();
    await rig.worker.changes.until('the link lost', () => rig.worker.bridges.size === 0);
    await rig.worker.changes.until('the link again', () => rig.worker.bridges.size > 0);
    await device.report('up');
    leg.heal(true);
    await untilEffects('up', 'down', 'up');
  });

  test('where another bridge may have had the session the Worker is told, and compares', async () => {
    await open();
    leg.cut('stall');
    await device.report('up');
    rig.worker.setRole('bridge-1', 'standby');
    await bridge.changes.until('standing by', () => bridge.states.at(-1)?.['role'] === 'standby');
    leg.heal(true);
    rig.worker.letAnotherBeActive();
    rig.worker.setRole('bridge-1', 'active');
    await rig.worker.untilActive();
    await device.report('after');
    await untilEffects('up', 'down', 'after');
    expect(rig.worker.batches.flatMap(({ items }) => items)).toMatchObject([
      { payload: 'up' },
      { payload: 'down' },
      { payload: 'up', dup: true },
      { payload: 'after' },
    ]);
    // From here on the bridge knows again all that the broker has sent.
    await loseOnItsWay('after');
    await untilEffects('up', 'down', 'after', 'after');
  });
});
