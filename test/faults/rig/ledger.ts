// What schedules were to do, what the service says became of it, and what devices counted: which of it may not be. Runs nothing.
import type { Run } from '../../../client/src/schedules.ts';
import type { Press } from './counting-device.ts';

/** A due time that was asked for, of a schedule with this name. Only if the service answered, it has to come. */
export type Planned = {
  name: string;
  dueAtMs: number;
  /** The end of jitter and grace. */
  lastMs: number;
  isAnswered: boolean;
};

/** Between the Worker and a device on a busy machine. */
const onItsWayMs = 1_000;

/** Of a device. `runs` are all that its ledger has. */
export function judgeLedger(planned: readonly Planned[], runs: readonly Run[], presses: readonly Press[]): string[] {
  const failures: string[] = [];
  const heard = Map.groupBy(presses, ({ id }) => id);
  for (const { name, isAnswered } of planned) {
    const { length } = runs.filter((run) => run.name === name);
    if (length > 1 || (length === 0 && isAnswered)) failures.push(`${name} has ${length} outcomes`);
  }
  for (const { name, runId, dueAt, outcome, reason, commandId } of runs) {
    const dueAtMs = Date.parse(dueAt);
    const plan = planned.find((each) => each.name === name && each.dueAtMs === dueAtMs);
    if (plan === undefined) failures.push(`${runId} was never asked for`);
    if (outcome === 'running') failures.push(`${runId} has not ended`);
    const own = commandId === null ? [] : (heard.get(commandId) ?? []);
    if (commandId !== null) heard.delete(commandId);
    if (outcome === 'confirmed' && own.length === 0) failures.push(`${runId} is confirmed, and was not heard`);
    if (outcome === 'missed' && own.length > 0) failures.push(`${runId} is missed (${reason}), and was pressed`);
    // A position that the device has had may be sent again with its id: it changes nothing.
    if (own.length > 1 && own[0]?.params.position === undefined)
      failures.push(`${runId} was pressed ${own.length} times`);
    for (const { atMs } of own) {
      if (atMs >= dueAtMs - onItsWayMs && atMs <= (plan?.lastMs ?? Infinity) + onItsWayMs) continue;
      failures.push(`${runId} was pressed ${atMs - dueAtMs} ms after its time, outside its grace`);
    }
  }
  for (const [id, [press]] of heard)
    failures.push(`${id} (${JSON.stringify(press?.params)}) was pressed without a run`);
  return failures;
}
