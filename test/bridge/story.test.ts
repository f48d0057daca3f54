// The two lanes of the bridge, end to end against real brokers: reports up, commands down.
import { afterEach, describe, expect, test } from 'vitest';
import { bridgeEnvironment, BridgeProcess, makeSpoolDir } from '../support/bridge-process.ts';
import { commandTopic, Device } from '../support/bridge-device.ts';
import { WorkerSide } from '../support/bridge-worker-side.ts';
import { startAedes } from '../support/broker-aedes.ts';

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

describe('with aedes', () => {
  test('a report goes up and a command goes down', async () => {
    const broker = await startAedes();
    cleanUps.push(broker.stop);
    const worker = await WorkerSide.start();
    cleanUps.push(() => worker.stop());
    const bridge = new BridgeProcess(
      bridgeEnvironment({ workerUrl: worker.url, mqttUrl: broker.url, spoolDir: makeSpoolDir() }),
    );
    cleanUps.push(() => bridge.kill('SIGTERM'));
    await worker.untilActive();
    const device = await Device.connect(broker.url, 'd1');
    cleanUps.push(() => device.leave());
    await device.listen();
    await device.report('{"hello":1}');
    await worker.changes.until('the report', () => worker.effects.includes('{"hello":1}'));
    worker.publish({ id: 'c1', topic: commandTopic('d1'), payload: '{"x":1}' });
    expect(await worker.answerTo('c1')).toEqual({ type: 'published', id: 'c1', hasSubscribers: null });
    await device.changes.until('the command', () => device.heard.length === 1);
  });
});
