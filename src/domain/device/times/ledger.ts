// Slice: the ledger of due times. Each due time ends in exactly one run: here while its command is open, then in the ring that
// storage keeps. Decides when a run has ended; what begins one is schedules.ts.
import type { RunView } from '../../../protocol/http/times.ts';
import { toIso } from '../../time.ts';
import { describeCommand, settleAtMs, type Command } from '../commands/command-life.ts';
import { appendHistory } from '../core/history.ts';
import type { DeviceState, Slice } from '../core/state.ts';

export type Run = Omit<RunView, 'runId' | 'dueAt'> & { dueAtMs: number };
type RunningRun = Omit<Run, 'outcome' | 'reason'> & { commandId: string };

/** `entries`: number of the last run in the ring. */
type RunsSlice = { entries: number; running: readonly RunningRun[] };

/** Runs that storage keeps. */
export const runSize = 200;
/** Open runs, beyond which none begins by request. */
export const maxRunning = 48;

export const runsSlice: Slice<RunsSlice> = {
  initial: { entries: 0, running: [] },
  row: 'own',
  dueAtMs: (state) => Math.min(Infinity, ...state.runs.running.map((run) => settleAtMs(commandOf(state, run)))),
  onNewOwner: 'forget',
};

export function appendRun(state: DeviceState, entry: Run): DeviceState {
  const number = state.runs.entries + 1;
  return appendHistory({ ...state, runs: { ...state.runs, entries: number } }, { kind: 'run', number, entry });
}

export function beginRun(state: DeviceState, run: RunningRun): DeviceState {
  return { ...state, runs: { ...state.runs, running: [...state.runs.running, run] } };
}

export function viewRun({ dueAtMs, ...run }: Run): RunView {
  return { runId: `${run.scheduleId}:${dueAtMs}`, ...run, dueAt: toIso(dueAtMs) };
}

/** Storage loads these commands with each event. */
export function runningCommands({ runs }: DeviceState): string[] {
  return runs.running.map(({ commandId }) => commandId);
}

/** In the decision that ends the command, so that both are written together. */
export function settleRuns(state: DeviceState, nowMs: number): DeviceState {
  let next = state;
  for (const run of state.runs.running) {
    const command = commandOf(state, run);
    const end = command === undefined ? unknown : endOf(state, command, nowMs);
    if (end === undefined) continue;
    const running = next.runs.running.filter((other) => other !== run);
    next = appendRun({ ...next, runs: { ...next.runs, running } }, { ...run, ...end });
    if (end.reason === 'author_lost_right') next = pauseOfAuthor(next, run, command);
  }
  const isOver = next !== state && next.runs.running.length === 0;
  // The alarm is set anew: that of the command would wake the device for nothing.
  return isOver ? { ...next, alarm: { ...next.alarm, setAtMs: null } } : next;
}

/** A run by request may be of somebody else. */
function pauseOfAuthor(state: DeviceState, { scheduleId }: RunningRun, command: Command | undefined): DeviceState {
  const schedules = state.schedules.map((schedule) =>
    schedule.scheduleId === scheduleId && schedule.author.userId === command?.givenBy?.userId
      ? { ...schedule, pausedBecause: 'author_lost_right' as const }
      : schedule,
  );
  return { ...state, schedules };
}

type RunEnd = Pick<Run, 'outcome' | 'reason'>;
const unknown: RunEnd = { outcome: 'published', reason: 'outcome_unknown' };

function endOf(state: DeviceState, command: Command, nowMs: number): RunEnd | undefined {
  const described = describeCommand(command, state.presence.connection.isOnline, nowMs);
  switch (described.state) {
    case 'confirmed':
      return { outcome: 'confirmed', reason: null };
    case 'acknowledged':
      return nowMs < settleAtMs(command) ? undefined : { outcome: 'acknowledged', reason: null };
    case 'failed':
      return { outcome: 'refused', reason: described.reason as RunEnd['reason'] };
    case 'undelivered':
      return { outcome: 'missed', reason: described.reason === 'no_subscriber' ? 'device_offline' : 'service_down' };
    case 'cancelled':
      if (described.reason === 'replaced') return { outcome: 'skipped', reason: 'replaced' };
      return { outcome: 'refused', reason: described.reason === 'revoked' ? 'author_lost_right' : 'cancelled' };
    case 'expired':
      if (described.reason === 'outcome_unknown') return unknown;
      if (command.isAwaitingDevice) return { outcome: 'missed', reason: 'device_offline' };
      if (command.brokerAcknowledgedAtMs !== null) return { outcome: 'published', reason: null };
      // A command that waits is tried again until the broker takes it: it did not.
      return command.isQueued ? { outcome: 'missed', reason: 'service_down' } : unknown;
    default:
      return undefined;
  }
}

function commandOf({ commands }: DeviceState, { commandId }: RunningRun): Command | undefined {
  return commands.loaded.find((command) => command.commandId === commandId);
}
