// An uplink that stands still is seen where people look, with its reason and age, and so is its end.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startAedes } from '../../rig/brokers/aedes.ts';
import { BridgeRig } from '../../rig/services/bridge-rig.ts';
import { eventually } from '../../rig/changes.ts';
import { findFreePort } from '../../rig/ports.ts';

describe('an uplink', () => {
  let rig: BridgeRig<Awaited<ReturnType<typeof startAedes>>>;
  let port: number;
  beforeEach(async () => {
    rig = await BridgeRig.start(await startAedes());
    port = await findFreePort();
  });
  afterEach(() => rig.close());

  const start = async () => {
    const bridge = rig.startBridge({ HEALTH_PORT: String(port), UPLINK_STALLED_AFTER_SECONDS: '1' });
    await bridge.untilReady();
    return bridge;
  };
  const ask = async (path: string) => fetch(`http://127.0.0.1:${port}${path}`);
  const stalls = () => rig.worker.frames.flatMap((frame) => (frame.type === 'uplink' ? [frame.stall] : []));

  test('that stands still is in readiness, metrics, log and with the Worker; and so is that it moves again', async () => {
    const bridge = await start();
    rig.worker.setFaults({ status: 503 });
    const device = await rig.connectDevice('d1');
    await device.report('1');
    await eventually('not ready', async () => (await ask('/readyz')).status === 503);
    expect(await (await ask('/readyz')).json()).toMatchObject({
      ready: false,
      uplink: 'stalled',
      uplinkReason: 'worker_unavailable',
      uplinkStalledSeconds: expect.any(Number) as number,
    });
    expect(await (await ask('/metrics')).text()).toMatch(/^bridge_uplink_stalled_seconds [1-9]/m);
    expect(await bridge.untilLogged('the uplink stands still: messages wait in the spool')).toMatchObject({
      alarm: true,
      reason: 'worker_unavailable',
    });
    const isTold = () => stalls().at(-1)?.reason === 'worker_unavailable';
    await rig.worker.changes.until('the Worker told', isTold);
    rig.worker.cutLinks();
    await rig.worker.changes.until('the link is back', () => rig.worker.bridges.size === 0);
    await rig.worker.changes.until('the Worker told again', () => rig.worker.bridges.size > 0 && isTold());
    rig.worker.setFaults({});
    await rig.worker.changes.until('the report', () => rig.worker.effects.includes('1'));
    await eventually('ready', async () => (await ask('/readyz')).status === 200);
    await rig.worker.changes.until('the Worker told of the end', () => stalls().at(-1) === null);
  });
});
