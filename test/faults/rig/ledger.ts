// What schedules were to do, what the service says became of it, and what devices counted: which of it may not be. Runs nothing.
import type { Run } from '../../../client/src/schedules.ts';
import type { Press } from './counting-device.ts';

/** A due time that was asked for. Only if the service answered, it has to come. */
export type Planned = {
  name: string;
  dueAtMs: number;
  /** The end of jitter and grace. */
  lastMs: number;
  isAnswered: boolean;
};

/** Runs by request of a schedule that presses at no other time. */
export type ByHand = { name: string; asked: number; answeredIds: string[]; graceMs: number };

/** Between the Worker and a device on a busy machine. */
const onItsWayMs = 1_000;

/** Of a device. `runs` are all that its ledger has. */
export function judgeLedger(
  planned: readonly Planned[],
  byHand: ByHand,
  runs: readonly Run[],
  presses: readonly Press[],
): string[] {
  const failures: string[] = [];
  const named = Map.groupBy(runs, ({ name }) => name);
  for (const { name, dueAtMs, isAnswered } of planned) {
    const outcomes = named.get(name)?.map(({ outcome }) => outcome) ?? [];
    if (outcomes.length > 1) failures.push(`${name} has ${outcomes.join(' and ')}`);
    if (outcomes.length === 0 && isAnswered) failures.push(`${name}, due at ${dueAtMs}, has no outcome`);
  }
  const handIds = named.get(byHand.name)?.map(({ runId }) => runId) ?? [];
  if (handIds.length > byHand.asked) failures.push(`${byHand.asked} runs were asked for, ${handIds.length} began`);
  const lost = byHand.answeredIds.filter((runId) => handIds.filter((other) => other === runId).length !== 1);
  if (lost.length > 0) failures.push(`runs by request without an outcome, or with two: ${lost.join(' ')}`);

  const lastMs = new Map(planned.map((plan) => [plan.name, plan.lastMs]));
  const heard = Map.groupBy(presses, ({ id }) => id);
  for (const { name, runId, dueAt, outcome, reason, commandId } of runs) {
    const dueAtMs = Date.parse(dueAt);
    const untilMs = name === byHand.name ? dueAtMs + byHand.graceMs : lastMs.get(name);
    if (untilMs === undefined) failures.push(`${runId} was never asked for`);
    if (outcome === 'running') failures.push(`${runId} has not ended`);
    const own = commandId === null ? [] : (heard.get(commandId) ?? []);
    if (commandId !== null) heard.delete(commandId);
    if (outcome === 'confirmed' && own.length === 0) failures.push(`${runId} is confirmed, and was not heard`);
    if (outcome === 'missed' && own.length > 0) failures.push(`${runId} is missed (${reason}), and was pressed`);
    const [first] = own;
    // A position that the device has had may be sent again with its id: it changes nothing.
    if (own.length > 1 && first?.params.position === undefined)
      failures.push(`${runId} was pressed ${own.length} times`);
    for (const { atMs } of own) {
      if (atMs >= dueAtMs - onItsWayMs && atMs <= (untilMs ?? 0) + onItsWayMs) continue;
      failures.push(`${runId} was pressed ${atMs - dueAtMs} ms after its time, ${atMs - (untilMs ?? 0)} after its end`);
    }
  }
  for (const [id, [press]] of heard)
    failures.push(`${id} (${JSON.stringify(press?.params)}) was pressed without a run`);
  return failures;
}
