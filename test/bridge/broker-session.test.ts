// What the bridge tells the Worker of its session with the broker: by it the Worker learns that the broker has forgotten all.
import { afterEach, describe, expect, test } from 'vitest';
import type { BrokerSession } from '../../src/protocol/bridge.ts';
import { startAedes } from '../../rig/brokers/aedes.ts';
import { bridgeName } from '../../rig/services/processes.ts';
import { BridgeRig } from '../../rig/services/bridge-rig.ts';
import { Mosquitto, mosquittoMissing } from '../../rig/brokers/mosquitto.ts';

let rig: BridgeRig<{ url: string; stop: () => Promise<unknown> }>;
afterEach(() => rig.close());

/** Of the connections to the broker so far, in their order. */
function sessionsTold(): BrokerSession[] {
  const told = rig.worker.frames.flatMap((frame) =>
    (frame.type === 'broker' || frame.type === 'hello') && frame.session !== undefined ? [frame.session] : [],
  );
  return [...new Map(told.map((session) => [session.connectionId, session])).values()];
}

const untilTold = (count: number) =>
  rig.worker.changes.until(`${count} sessions`, () => sessionsTold().length === count);

describe('the Worker is told', () => {
  test('that a broker that was restarted without a memory has no session any more', async () => {
    const aedes = await startAedes();
    rig = await BridgeRig.start(aedes);
    const bridge = rig.startBridge();
    await bridge.untilReady();
    const device = await rig.connectDevice('d1');
    await device.report('1');
    await rig.worker.changes.until('the report', () => rig.worker.effects.length === 1);
    await aedes.stop();
    await bridge.changes.until('no broker', () => !bridge.isBrokerConnected);
    rig.broker = await startAedes(aedes.port);
    await untilTold(2);
    const [first, second] = sessionsTold();
    expect(first?.name, 'the client id is a secret').not.toContain(bridgeName);
    expect(first?.isPresent).toBe(false);
    expect(second).toMatchObject({ name: first?.name, isPresent: false });
    expect(second?.connectionId).not.toBe(first?.connectionId);
  });

  test.skipIf(mosquittoMissing !== null)(
    'that one with a memory has it, also over a restart of the bridge',
    async () => {
      rig = await BridgeRig.start(await Mosquitto.start());
      const bridge = rig.startBridge();
      await bridge.untilReady();
      await bridge.kill('SIGKILL');
      await rig.startBridge().untilReady();
      await untilTold(2);
      expect(sessionsTold()[1]).toMatchObject({ name: sessionsTold()[0]?.name, isPresent: true });
    },
  );

  test('again with each link, of the same connection', async () => {
    rig = await BridgeRig.start(await startAedes());
    await rig.startBridge().untilReady();
    await untilTold(1);
    const hellos = () => rig.worker.frames.filter((frame) => frame.type === 'hello');
    rig.worker.cutLinks();
    await rig.worker.changes.until('another hello', () => hellos().length === 2);
    expect(hellos()[1]).toMatchObject({
      brokerConnected: true,
      session: { connectionId: sessionsTold()[0]?.connectionId },
    });
    expect(sessionsTold()).toHaveLength(1);
  });
});
