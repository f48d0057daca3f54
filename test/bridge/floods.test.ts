// A device that sends more than it may: its last word counts, the rest is counted, and nobody else notices.
import { DatabaseSync } from 'node:sqlite';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startAedes } from '../../rig/brokers/aedes.ts';
import { BridgeRig } from '../../rig/services/bridge-rig.ts';
import { eventually } from '../../rig/changes.ts';
import { reportTopic } from '../../rig/clients/mqtt-client.ts';

describe('a device', () => {
  let rig: BridgeRig<Awaited<ReturnType<typeof startAedes>>>;
  beforeEach(async () => {
    rig = await BridgeRig.start(await startAedes());
  });
  afterEach(() => rig.close());

  /** One message a second, 20 at once. */
  const start = async () => {
    const bridge = rig.startBridge({ ...rig.health, DEVICE_MESSAGES_PER_SECOND: '1' });
    await bridge.untilReady();
    return bridge;
  };
  const effectsOf = (name: string) => rig.worker.effects.filter((effect) => effect.startsWith(`${name}:`));

  test('that floods has its last message in effect, and delays no other device', async () => {
    const bridge = await start();
    const [flooding, quiet] = [await rig.connectDevice('flood'), await rig.connectDevice('quiet')];
    const sent = Array.from({ length: 2000 }, (_, n) => flooding.report(`flood:${n}`));
    for (let n = 0; n < 20; n += 1) await quiet.report(`quiet:${n}`);
    await Promise.all(sent);
    await rig.worker.untilEffects('flood:1999');
    await rig.worker.changes.until('those of the other device', () => effectsOf('quiet').length === 20);
    expect(effectsOf('quiet')).toEqual(Array.from({ length: 20 }, (_, n) => `quiet:${n}`));
    const taken = effectsOf('flood');
    expect(taken.slice(0, 20)).toEqual(Array.from({ length: 20 }, (_, n) => `flood:${n}`));
    expect(taken.at(-1)).toBe('flood:1999');
    expect(await bridge.metric('bridge_messages_dropped_total')).toBe(2000 - taken.length);
    expect(taken.length).toBeLessThan(500);
    expect(rig.worker.dropped.get(reportTopic('flood'))).toBeGreaterThan(0);
    expect([...rig.worker.dropped.keys()]).toEqual([reportTopic('flood')]);
    const namings = rig.worker.batches.filter(({ dropped }) => dropped.length > 0);
    expect(namings, 'a device is named once a minute').toHaveLength(1);
  });

  test('that was stopped by its limit is spooled to the last message when the bridge leaves', async () => {
    const bridge = await start();
    const device = await rig.connectDevice('flood');
    for (let n = 0; n < 25; n += 1) await device.report(`flood:${n}`);
    await bridge.kill('SIGTERM');
    await start();
    await rig.worker.changes.until('the last one', () => effectsOf('flood').at(-1) === 'flood:24');
    expect(effectsOf('flood').slice(0, 20)).toEqual(Array.from({ length: 20 }, (_, n) => `flood:${n}`));
  });

  test('that sent while no bridge read has lost nothing by it', async () => {
    const bridge = await start();
    await bridge.kill('SIGTERM');
    const device = await rig.connectDevice('d1');
    for (let n = 0; n < 500; n += 1) await device.report(`d1:${n}`);
    const spool = new DatabaseSync(join(rig.spoolDir, 'spool.sqlite'));
    spool.exec(`UPDATE spool SET last_received_at_ms = ${Date.now() - 600_000}`);
    spool.close();
    const successor = await start();
    await rig.worker.changes.until('all of them', () => effectsOf('d1').length === 500);
    const isNothingDropped = async () =>
      (await successor.ask('/metrics')).text.includes('\nbridge_messages_dropped_total 0\n');
    await eventually('metrics', isNothingDropped);
  });
});
