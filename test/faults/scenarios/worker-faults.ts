// The Worker fails: it refuses, hangs, is restarted, or has committed and its answer is lost.
import { setTimeout as sleep } from 'node:timers/promises';
import type { UplinkItem } from '../../../src/protocol/bridge.ts';
import { readMetric, untilSpoolEmpty } from '../rig/bridge-metrics.ts';
import { FaultRig } from '../rig/fault-rig.ts';
import { HttpGate } from '../rig/http-gate.ts';
import { slotsPerDevice } from '../rig/message-maker.ts';
import { PositionCounter } from '../rig/position-counter.ts';
import { find, type Scenario } from '../rig/scenario.ts';

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
    gate.setFaults({
      refuse: () => {
        const status = random.pick([500, 502, 503, 504, 429, 408]);
        return status === 429 ? { status, retryAfter: '1' } : { status };
      },
    });
    await sleep(outageMs);
    gate.setFaults({});
    await loading;
    return [find(`${outageMs / 1000} s of refusals`, await rig.finish(), [`${gate.refused} requests refused`])];
  },
};

export const workerHangs: Scenario = {
  name: 'worker-hangs',
  title: 'every process of the Worker is stopped with SIGSTOP, and goes on later with the requests it was sent',
  run: async ({ worker, count }) => {
    const hangMs = count(60, 4) * 1000;
    const aroundMs = count(5, 1) * 1000;
    const perSecond = 300;
    await using gate = await HttpGate.start(worker.url);
    await using rig = await FaultRig.open(worker, 50);
    const bridge = rig.startBridge({ spool: await rig.makeSpool(), workerUrl: gate.url });
    await bridge.untilBrokerConnected();
    // The requests that were given up stay with the Worker: once awake it has the retries beside them.
    gate.setFaults({ givesUpAfterMs: 1500 });
    const loading = rig.load(((hangMs + 2 * aroundMs) / 1000) * perSecond, perSecond);
    await sleep(aroundMs);
    worker.freezeWorker();
    await sleep(hangMs);
    worker.thawWorker();
    await loading;
    const outcome = await rig.finish();
    return [find(`${hangMs / 1000} s`, outcome, [`${gate.givenUp} requests given up by the bridge's side`])];
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
    gate.setFaults({ losesAnswer: () => random.isBelow(0.1) });
    await rig.load(count(20_000, 1500), 800);
    await rig.untilArrived();
    gate.setFaults({});
    return [find('10 % of answers', await rig.finish(), [`${gate.lostAnswers} answers lost`])];
  },
};

/** Messages of one device in a row, so that a batch has several of it: a single one applied twice would change nothing. */
const inARow = 10;
/** A bridge has three batches under way; those that are not held meet the restart as it comes. */
const heldBatches = 2;
const heldWithinMs = 10_000;

export const workerRestarts: Scenario = {
  name: 'worker-restarts',
  title: 'the Worker is killed and restarted under load, in turn with SIGKILL and in order, after it took two batches',
  seenBy:
    'the devices’ states, read after each restart, because relay sockets end with the Worker. Lost: in one round every ' +
    'changing message of a device has a property of its own. Doubled: each one changes the position, and the changes ' +
    'that the devices wrote down are counted',
  run: async ({ worker, count, say }) => {
    const restarts = count(20, 2);
    const deviceCount = 40;
    const perRound = count(deviceCount * slotsPerDevice, 800);
    await using gate = await HttpGate.start(worker.url);
    await using rig = await FaultRig.open(worker, deviceCount);
    const { maker, devices } = rig;
    const spool = await rig.makeSpool();
    const { healthPort } = spool;
    const bridge = rig.startBridge({ spool, workerUrl: gate.url });
    await bridge.untilBrokerConnected();
    const counter = new PositionCounter();
    const moves = { made: 0, missing: 0, tooMany: 0 };
    let stale = 0;
    for (let round = 0; round < restarts; round += 1) {
      const loading = rig.load(perRound, 800, (index) => [
        maker.make({ device: devices[Math.floor(index / inARow) % deviceCount], moves: true }),
      ]);
      await rig.untilSent(round * perRound + Math.floor(perRound / 4));
      gate.setFaults({ holdsAnswer: (body) => gate.held < heldBatches && hasSeveralChanging(body) });
      await untilHeld(gate);
      await worker.restartWorker(round % 2 === 0 ? 'kill' : 'leave');
      // The relay is connected before the bridge sends the batches again, so that their pushes are seen.
      await rig.watch.untilBack(round + 1);
      gate.setFaults({});
      gate.dropHeld();
      await loading;
      await rig.publisher.drained(60_000);
      const left = await untilSpoolEmpty(healthPort);
      if (left > 0) throw new Error(`${left} messages stay in the spool after restart ${round + 1}`);
      stale += await maker.compareState(worker);
      moves.made = moves.missing = moves.tooMany = 0;
      for (const { deviceId } of devices) {
        const [made, recorded] = [maker.countChanging(deviceId), await counter.count(worker, deviceId)];
        moves.made += made;
        moves.missing += Math.max(0, made - recorded);
        moves.tooMany += Math.max(0, recorded - made);
      }
      if (round % 5 === 4) say(`${round + 1} restarts`);
    }
    const taken = await readMetric(healthPort, 'bridge_items_total{result="accepted"}');
    const settled = await rig.finish();
    const doubled = Math.max(settled.doubled, moves.tooMany);
    const outcome = { ...settled, doubled, stale: settled.stale + stale };
    const facts = [
      `the bridge was told "accepted" for ${taken}`,
      `${moves.made + moves.tooMany - moves.missing} changes of position for ${moves.made} messages`,
      `the relay was lost ${rig.watch.losses} times`,
    ];
    const finding = find(`${restarts} restarts`, outcome, facts, {
      // Effects that the relay missed count from when the state was read, so their order is unknown.
      isOrderKept: false,
      isRelayKept: false,
      isMemoryKept: false,
    });
    if (stale > 0) finding.failures.push(`${stale} properties that do not show the last message`);
    if (moves.missing > 0) finding.failures.push(`${moves.missing} changes of position missing`);
    if (taken !== outcome.accepted) finding.failures.push(`${taken} answers for ${outcome.accepted} messages`);
    return [finding];
  },
};

/** Whether applying it twice would show: it changes the position of one device more than once. */
function hasSeveralChanging(body: string): boolean {
  const { items } = JSON.parse(body) as { items: UplinkItem[] };
  const changing = items.filter(({ payload }) => payload?.includes('"position"')).map(({ topic }) => topic);
  return new Set(changing).size < changing.length;
}

async function untilHeld(gate: HttpGate): Promise<void> {
  const deadlineMs = performance.now() + heldWithinMs;
  while (gate.held < heldBatches) {
    if (performance.now() > deadlineMs) throw new Error('no batch has several changing messages of a device');
    await sleep(10);
  }
}
