// The Worker hangs, or is killed and started again, under load: what the devices' objects recorded must be what was sent. Relay
// sockets end with the Worker, so each restart is judged by the objects. It must not know on which way messages reach the Worker.
import type { FaultBroker, FaultRig, Outcome } from './fault-rig.ts';
import type { Numbered } from './message-maker.ts';
import { PositionCounter } from './device-state.ts';
import { find, type Finding, type Wanted } from './scenario.ts';

/** Messages of one device in a row, so that a batch has several of it: a single one applied twice would change nothing. */
export const inARow = 10;

export const seenInDevices =
  'the devices’ states. Lost: every changing message of a device has a property of its own until the state is read. ' +
  'Doubled: each one changes the position, and the changes that the devices wrote down are counted';

type Plan = {
  restarts: number;
  /** A device must not get more changing messages in a round than it has slots. */
  perRound: number;
  perSecond: number;
  /** Each changing message has to change the position. */
  make: (index: number) => Numbered;
  /** Resolves when the Worker is to end. */
  beforeRestart?: () => Promise<void>;
  /** The relay is connected again: pushes from now on are seen. */
  afterRestart?: () => void;
  /** Resolves when the Worker has everything that the publisher has acknowledgements for. */
  untilDelivered?: () => Promise<void>;
};

export async function restartWorker<B extends FaultBroker>(rig: FaultRig<B>, plan: Plan): Promise<Finding> {
  const { worker, maker, devices } = rig;
  const { restarts, perRound, perSecond, make } = plan;
  const counter = new PositionCounter();
  let stale = 0;
  for (let round = 0; round < restarts; round += 1) {
    const loading = rig.load(perRound, perSecond, (index) => [make(index)]);
    await rig.untilSent(round * perRound + Math.floor(perRound / 4));
    await plan.beforeRestart?.();
    await worker.restartWorker(round % 2 === 0 ? 'kill' : 'leave');
    await rig.watch.untilBack(round + 1);
    plan.afterRestart?.();
    await loading;
    await rig.publisher.drained(60_000);
    await plan.untilDelivered?.();
    stale += await maker.compareState(worker);
    for (const { deviceId } of devices) await counter.count(worker, deviceId);
  }
  // Effects that the relay missed count from when the state was read, so their order is unknown.
  const wanted = { isOrderKept: false, isRelayKept: false, isMemoryKept: false };
  const finding = await findWithMoves(`${restarts} restarts`, rig, await rig.finish(), counter, wanted);
  if (stale > 0) finding.failures.push(`${stale} properties that do not show the last message`);
  return finding;
}

/** Also compares the changes of position that were sent with those that the devices recorded. */
export async function findWithMoves<B extends FaultBroker>(
  label: string,
  { worker, maker, devices, history }: FaultRig<B>,
  outcome: Outcome,
  counter = new PositionCounter(),
  wanted: Wanted = {},
): Promise<Finding> {
  const moves = { sent: 0, recorded: 0, missing: 0, tooMany: 0 };
  for (const { deviceId } of devices) {
    const [sent, recorded] = [maker.countChanging(deviceId), await counter.count(worker, deviceId)];
    moves.sent += sent;
    moves.recorded += recorded;
    moves.missing += Math.max(0, sent - recorded);
    moves.tooMany += Math.max(0, recorded - sent);
  }
  // A message that a device sent again may have been in effect already: then the position moved once more.
  const doubled = Math.max(outcome.doubled, moves.tooMany - history.repeatedAttempts);
  const facts = [`${moves.recorded} changes of position for ${moves.sent} messages`];
  const finding = find(label, { ...outcome, doubled }, facts, wanted);
  if (moves.missing > 0) finding.failures.push(`${moves.missing} changes of position missing`);
  return finding;
}
