// A message that the Worker, or the device's object, can never take: it is given up, and nothing else is.
import { afterEach, beforeEach, expect, test } from 'vitest';
import { messageFailed, type UplinkItem } from '../../src/protocol/bridge.ts';
import { readDeadLetters } from '../../rig/services/processes.ts';
import { reportTopic } from '../../rig/clients/mqtt-client.ts';
import { maxTries, UplinkRig } from '../../rig/services/uplink-rig.ts';

let rig: UplinkRig;

beforeEach(async () => {
  rig = await UplinkRig.start();
});
afterEach(() => rig.stop());

const isPoison = (item: UplinkItem): boolean => item.payload === 'd1:poison';

test('is given up after as many tries as others were taken between, and its device goes on', async () => {
  let poisoned: number | undefined;
  let tries = 0;
  rig.worker.setFaults({
    judge: (item) => {
      if (isPoison(item)) {
        poisoned = rig.worker.batches.length;
        tries += 1;
      }
      const isBehind = item.topic === reportTopic('d1') && poisoned === rig.worker.batches.length;
      if (!isBehind) return { result: 'accepted' };
      return { result: 'retry', reason: isPoison(item) ? messageFailed : 'device_failed' };
    },
  });
  // The second try shows that the bridge knows of the first one's failure.
  const untilTwoTries = async (): Promise<void> => {
    const before = tries;
    await rig.worker.changes.until('two tries', () => tries >= before + 2 || rig.worker.effects.includes('d1:2'));
  };
  rig.spoolReport('d1', 'd1:poison');
  rig.spoolReport('d1', 'd1:2');
  await untilTwoTries();
  // The first try counts. Each message of the other device makes one more count, however often it is tried.
  for (let n = 1; n < maxTries; n += 1) {
    expect(rig.worker.effects).not.toContain('d1:2');
    rig.spoolReport('d2', `d2:${n}`);
    await rig.worker.untilEffects(`d2:${n}`);
    await untilTwoTries();
  }
  await rig.untilEmpty();
  expect(rig.worker.effects).toContain('d1:2');
  expect(readDeadLetters(rig.dir)).toMatchObject([{ reason: messageFailed, item: { payload: 'd1:poison' } }]);
  expect(rig.disorders()).toEqual([]);
});

test.each([
  ['its device cannot be reached', 'device_unreachable'],
  ['its device is overloaded', 'device_overloaded'],
  ['its device does not answer', 'device_timeout'],
  ['its object fails altogether', 'device_failed'],
])('is another thing than that %s: the message stays', async (_, reason) => {
  let tries = 0;
  rig.worker.setFaults({
    judge: (item) => {
      if (!isPoison(item)) return { result: 'accepted' };
      tries += 1;
      return { result: 'retry', reason };
    },
  });
  rig.spoolReport('d1', 'd1:poison');
  for (let n = 0; tries < 5; n += 1) {
    rig.spoolReport('d2', `d2:${n}`);
    await rig.worker.untilEffects(`d2:${n}`);
  }
  rig.worker.setFaults({});
  await rig.worker.untilEffects('d1:poison');
  expect(readDeadLetters(rig.dir)).toEqual([]);
});

test('is not given up while nothing else is taken', async () => {
  let tries = 0;
  rig.worker.setFaults({
    judge: () => {
      tries += 1;
      return { result: 'retry', reason: messageFailed };
    },
  });
  rig.spoolReport('d1', 'd1:poison');
  rig.spoolReport('d2', 'd2:1');
  await rig.worker.changes.until('many tries', () => tries >= 8);
  rig.worker.setFaults({});
  await rig.untilEffects(2);
  expect(readDeadLetters(rig.dir)).toEqual([]);
});

test('does not stop the others where the Worker itself fails with it', async () => {
  rig.worker.setFaults({ statusWith: (item) => (isPoison(item) ? 500 : undefined) });
  rig.spoolReports(100, 10);
  rig.spoolReport('d1', 'd1:poison');
  let n = 100;
  await rig.untilEffects(100);
  while (readDeadLetters(rig.dir).length === 0) {
    rig.spoolReport('d2', `d2:${n}`);
    await rig.worker.untilEffects(`d2:${n}`);
    n += 1;
  }
  await rig.untilEmpty();
  expect(readDeadLetters(rig.dir)).toMatchObject([{ reason: 'a fault on request', item: { payload: 'd1:poison' } }]);
  expect(rig.disorders()).toEqual([]);
});
