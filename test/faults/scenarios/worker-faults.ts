// The Worker fails: it refuses, hangs, is restarted, or has committed and its answer is lost.
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../../rig/changes.ts';
import type { UplinkItem } from '../../../src/protocol/bridge.ts';
import { readMetric, untilSpoolEmpty } from '../rig/bridge-metrics.ts';
import { FaultRig } from '../rig/fault-rig.ts';
import { HttpGate } from '../rig/http-gate.ts';
import { slotsPerDevice } from '../rig/message-maker.ts';
import { find, type Scenario } from '../rig/scenario.ts';
import { findWithMoves, inARow, restartWorker, seenInDevices } from '../rig/worker-outages.ts';

export const workerRefuses: Scenario = {
  name: 'worker-5xx',
  title: 'the Worker answers 5xx and 429 at 500 messages a second',
  run: async ({ worker, random, count }) => {
    const outageMs = count(60, 3) * 1000;
    const aroundMs = count(5, 1) * 1000;
    const perSecond = 500;
    await using gate = await HttpGate.start(worker.url);
    await using rig = await FaultRig.open(worker, 50);
    const bridge = rig.startBridge({ spool: await rig.makeSpool(), workerUrl: gate.url });
    await bridge.untilBrokerConnected();
    const loading = rig.load(((outageMs + 2 * aroundMs) / 1000) * perSecond, perSecond);
    await sleep(aroundMs);
    gate.setFaults({ refuse: () => random.pick([500, 502, 503, 504, 429, 408]) });
    await sleep(outageMs);
    gate.setFaults({});
    await loading;
    return [find(`${outageMs / 1000} s of refusals`, await rig.finish(), [`${gate.refused} requests refused`])];
  },
};

export const workerHangs: Scenario = {
  name: 'worker-hangs',
  title: 'every process of the Worker is stopped with SIGSTOP, and goes on later with the requests it was sent',
  seenBy:
    'the relay, on a connection that is kept through the hang, and the changes of position that devices wrote down',
  run: async ({ worker, count }) => {
    const hangMs = count(60, 4) * 1000;
    const aroundMs = count(5, 1) * 1000;
    const perSecond = 300;
    const messages = ((hangMs + 2 * aroundMs) / 1000) * perSecond;
    await using gate = await HttpGate.start(worker.url);
    // A device remembers 100 changes of position; every other message makes one.
    await using rig = await FaultRig.open(worker, Math.ceil(messages / 180));
    const { maker, devices } = rig;
    const bridge = rig.startBridge({ spool: await rig.makeSpool(), workerUrl: gate.url });
    await bridge.untilBrokerConnected();
    // The requests that were given up stay with the Worker: once awake it has the retries beside them.
    gate.setFaults({ givesUpAfterMs: 1500 });
    const loading = rig.load(messages, perSecond, (index) => [
      maker.make({ device: devices[Math.floor(index / inARow) % devices.length], moves: true }),
    ]);
    await sleep(aroundMs);
    worker.freezeWorker();
    await sleep(hangMs);
    worker.thawWorker();
    await loading;
    const finding = await findWithMoves(`${hangMs / 1000} s`, rig, await rig.finish());
    finding.facts.push(`${gate.givenUp} requests given up by the bridge's side`);
    if (gate.givenUp === 0) finding.failures.push('no request was given up');
    return [finding];
  },
};

export const answersLost: Scenario = {
  name: 'answers-lost',
  title: 'the connection is cut after the Worker has committed, in place of its answer, for one batch in ten',
  run: async ({ worker, random, count }) => {
    await using gate = await HttpGate.start(worker.url);
    await using rig = await FaultRig.open(worker, 50);
    const bridge = rig.startBridge({ spool: await rig.makeSpool(), workerUrl: gate.url });
    await bridge.untilBrokerConnected();
    // The first always: a short run has few batches.
    gate.setFaults({ losesAnswer: () => gate.lostAnswers === 0 || random.isBelow(0.1) });
    await rig.load(count(20_000, 1500), 800);
    await rig.untilArrived();
    gate.setFaults({});
    return [find('10 % of answers', await rig.finish(), [`${gate.lostAnswers} answers lost`])];
  },
};

/** A bridge has three batches under way; those that are not held meet the restart as it comes. */
const heldBatches = 2;

export const workerRestarts: Scenario = {
  name: 'worker-restarts',
  title: 'the Worker is killed and restarted under load, in turn with SIGKILL and in order, after it took two batches',
  seenBy: seenInDevices,
  run: async ({ worker, count }) => {
    const deviceCount = 40;
    await using gate = await HttpGate.start(worker.url);
    await using rig = await FaultRig.open(worker, deviceCount);
    const { maker, devices } = rig;
    const spool = await rig.makeSpool();
    const bridge = rig.startBridge({ spool, workerUrl: gate.url });
    await bridge.untilBrokerConnected();
    let taken = 0;
    const finding = await restartWorker(rig, {
      restarts: count(20, 2),
      perRound: count(deviceCount * slotsPerDevice, 800),
      perSecond: 800,
      make: (index) => maker.make({ device: devices[Math.floor(index / inARow) % deviceCount], moves: true }),
      beforeRestart: async () => {
        gate.setFaults({ holdsAnswer: (body) => gate.held < heldBatches && hasSeveralChanging(body) });
        await eventually('batches with several changing messages of a device', () => gate.held >= heldBatches);
      },
      // Not before: the bridge then sends these batches again.
      afterRestart: () => {
        gate.setFaults({});
        gate.dropHeld();
      },
      untilDelivered: async () => {
        await untilSpoolEmpty(spool.healthPort);
        taken = await readMetric(spool.healthPort, 'bridge_items_total{result="accepted"}');
      },
    });
    finding.facts.push(`the bridge was told "accepted" for ${taken}`, `the relay was lost ${rig.watch.losses} times`);
    const accepted = finding.outcome?.accepted;
    if (taken !== accepted) finding.failures.push(`${taken} answers for ${accepted} messages`);
    return [finding];
  },
};

/** Whether applying it twice would show: it changes the position of one device more than once. */
function hasSeveralChanging(body: string): boolean {
  const { items } = JSON.parse(body) as { items: UplinkItem[] };
  const changing = items.filter(({ payload }) => payload?.includes('"position"')).map(({ topic }) => topic);
  return new Set(changing).size < changing.length;
}
