// Payloads of many megabytes at real brokers: they cost the bridge neither its memory nor the messages behind them.
import { afterEach, describe, expect, test } from 'vitest';
import { startAedes } from '../../rig/brokers/aedes.ts';
import { BridgeRig } from '../../rig/services/bridge-rig.ts';
import { Mosquitto, mosquittoMissing } from '../../rig/brokers/mosquitto.ts';
import { reportTopic } from '../../rig/clients/mqtt-client.ts';
import { readDeadLetters } from '../../rig/services/processes.ts';

type Broker = { url: string; stop: () => Promise<unknown> };

const hugeBytes = 90_000_000;
const allowedGrowthBytes = 120_000_000;

const brokers: [string, boolean, () => Promise<Broker>, '5' | '3.1.1'][] = [
  ['aedes, MQTT 3.1.1', false, () => startAedes(), '3.1.1'],
  ['mosquitto, MQTT 3.1.1', mosquittoMissing !== null, () => Mosquitto.start(), '3.1.1'],
  ['mosquitto, MQTT 5', mosquittoMissing !== null, () => Mosquitto.start(), '5'],
];

describe.each(brokers)('%s', (_, isMissing, startBroker, protocol) => {
  let rig: BridgeRig<Broker> | undefined;
  afterEach(() => rig?.close());

  test.skipIf(isMissing)('large messages become short dead letters, and the reports behind them arrive', async () => {
    rig = await BridgeRig.start(await startBroker());
    const { worker, spoolDir } = rig;
    const bridge = rig.startBridge({ MQTT_PROTOCOL: protocol, ...rig.health });
    const readMemory = (): Promise<number> => bridge.metric('bridge_process_resident_memory_bytes');
    await bridge.untilReady();
    const device = await rig.connectDevice('d1');
    await device.report('"first"');
    await worker.changes.until('the first report', () => worker.effects.length === 1);
    const before = await readMemory();
    expect(before).toBeGreaterThan(0);
    let peak = before;
    for (let n = 0; n < 3; n += 1) {
      await device.report('x'.repeat(100_000));
      await device.report('y'.repeat(hugeBytes));
      await device.report(`"behind ${n}"`);
      await worker.changes.until(`report ${n}`, () => worker.effects.includes(`"behind ${n}"`));
      peak = Math.max(peak, await readMemory());
    }
    expect(worker.effects).toEqual(['"first"', '"behind 0"', '"behind 1"', '"behind 2"']);
    expect(peak - before).toBeLessThan(allowedGrowthBytes);
    expect(bridge.hasExited).toBe(false);
    // A broker with MQTT 5 knows what the bridge takes and drops the largest itself.
    const expected = protocol === '5' ? [100_000, 100_000, 100_000] : [1, 2, 3].flatMap(() => [100_000, hugeBytes]);
    await worker.changes.until('the dead letters', () => readDeadLetters(spoolDir).length >= expected.length);
    const letters = readDeadLetters(spoolDir);
    expect(letters.map(({ item }) => item.payloadBytes)).toEqual(expected);
    for (const { reason, item } of letters) {
      expect(reason).toBe('too_large');
      expect(item.topic).toBe(reportTopic('d1'));
      expect(item.payload).toMatch(/^(x{1024}|y{1024})$/);
    }
  });
});
