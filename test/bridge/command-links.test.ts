// Command links: open while the bridge is active, ahead of what else the Worker publishes.
import { afterEach, expect, test } from 'vitest';
import { startAedes } from '../../rig/brokers/aedes.ts';
import { BridgeRig } from '../../rig/services/bridge-rig.ts';
import { Mosquitto, mosquittoMissing } from '../../rig/brokers/mosquitto.ts';
import { commandTopic } from '../../rig/clients/mqtt-client.ts';

let rig: BridgeRig<{ url: string; stop: () => Promise<unknown> }> | undefined;
afterEach(async () => {
  await rig?.close();
  rig = undefined;
});

async function startWith(commandLinks: number, broker: { url: string; stop: () => Promise<unknown> }) {
  const started = (rig = await BridgeRig.start(broker));
  const { worker } = started;
  worker.commandLinks = commandLinks;
  started.startBridge();
  await worker.untilActive();
  await worker.changes.until('the links', () => worker.openCommandLinks.size === commandLinks);
  return started;
}

test('are open while the bridge is active, and closed while it stands by', async () => {
  const { worker } = await startWith(3, await startAedes());
  worker.setRole('bridge-1', 'standby');
  await worker.changes.until('closed links', () => worker.openCommandLinks.size === 0);
  worker.setRole('bridge-1', 'active');
  await worker.changes.until('the links', () => worker.openCommandLinks.size === 3);
  worker.commandLinks = 1;
  worker.setRole('bridge-1', 'active');
  await worker.changes.until('one link', () => worker.openCommandLinks.size === 1);
});

test('bring commands, whose outcome goes back on them, also after one was lost', async () => {
  const rig = await startWith(2, await startAedes());
  const { worker } = rig;
  const device = await rig.connectDevice('d1');
  await device.listen();
  worker.publish({ id: 'c1', topic: commandTopic('d1'), payload: 'up' }, 1);
  expect(await worker.answerTo('c1')).toMatchObject({ type: 'published' });
  const lost = worker.openCommandLinks.get(1)!;
  lost.terminate();
  await worker.changes.until('the link again', () => ![undefined, lost].includes(worker.openCommandLinks.get(1)));
  worker.publish({ id: 'c2', topic: commandTopic('d1'), payload: 'down' }, 1);
  expect(await worker.answerTo('c2')).toMatchObject({ type: 'published' });
  await device.changes.until('both commands', () => device.heard.length === 2);
});

test.skipIf(mosquittoMissing !== null)('do not wait behind announcements', async () => {
  // mosquitto announces a receive maximum of 20.
  const { worker } = await startWith(1, await Mosquitto.start());
  const announcements = Array.from({ length: 2_000 }, (_, n) => `a${n}`);
  for (const id of announcements) worker.publish({ id, topic: 'announcements' });
  worker.publish({ id: 'c1', topic: commandTopic('d1') }, 0);
  await worker.answerTo(announcements.at(-1)!);
  const order = worker.frames.flatMap((frame) => ('id' in frame ? frame.id : []));
  expect(order).toHaveLength(announcements.length + 1);
  expect(order.indexOf('c1')).toBeLessThan(announcements.length - 50);
});
