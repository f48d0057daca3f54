// What a scenario is and what it finds. The wording of results in one place; it must not run anything.
import type { Outcome } from './fault-rig.ts';
import type { Random } from '../../../rig/inputs/random.ts';
import type { WorkerRig } from '../../../rig/worker/worker-rig.ts';

export type Context = {
  worker: WorkerRig;
  random: Random;
  isShort: boolean;
  /** The number for a full run, scaled as asked for, or the one for the short run. */
  count: (full: number, short: number) => number;
  say: (line: string) => void;
};

export type Scenario = {
  name: string;
  title: string;
  /** How effects are seen, if not by the relay and the devices' states. */
  seenBy?: string;
  run: (context: Context) => Promise<Finding[]>;
};

export type Finding = {
  label: string;
  /** What became of the messages, if the scenario is about messages. */
  outcome?: Outcome;
  /** Figures beside the verdict, in words. */
  facts: string[];
  /** Empty when the target is met. */
  failures: string[];
};

/**
 * Which outcomes must not happen. `isOrderKept` covers `overtaken` and `stale`. `isMemoryKept` is false if the
 * Worker's memory is lost, and with it which resting messages were pushed.
 */
export type Wanted = { isOrderKept?: boolean; isReportedOnly?: boolean; isRelayKept?: boolean; isMemoryKept?: boolean };

export function find(label: string, outcome: Outcome, facts: string[], wanted: Wanted = {}): Finding {
  const { isOrderKept = true, isReportedOnly = false, isRelayKept = true, isMemoryKept = true } = wanted;
  const failures: string[] = [];
  const refuse = (count: number, what: string, examples: number[] = []): void => {
    if (count > 0) failures.push(`${count} ${what}${examples.length === 0 ? '' : `, e.g. ${examples.join(' ')}`}`);
  };
  if (!isReportedOnly) {
    refuse(outcome.lost, 'lost', outcome.examples.lost);
    refuse(outcome.doubled, 'doubled', outcome.examples.doubled);
    if (isMemoryKept) refuse(outcome.pushedAgain, 'pushed again', outcome.examples.pushedAgain);
    if (isOrderKept) {
      refuse(outcome.overtaken, 'overtaken', outcome.examples.overtaken);
      refuse(outcome.stale, 'properties that do not show the last message');
    }
  }
  if (isRelayKept) refuse(outcome.relayLosses, 'times the relay was lost');
  if (outcome.accepted === 0) failures.push('nothing was sent');
  return { label, outcome, facts, failures };
}

export function describeFinding({ label, outcome, facts, failures }: Finding): string {
  const verdict = failures.length === 0 ? '' : `  FAILED: ${failures.join('; ')}`;
  const figures = [...(outcome === undefined ? [] : describeOutcome(outcome)), ...facts];
  return `${label}: ${figures.join(', ')}${verdict}`;
}

function describeOutcome(outcome: Outcome): string[] {
  const { accepted, lost, doubled, pushedAgain, unseen, overtaken, excused, stale } = outcome;
  const always = [`${accepted} accepted`, `lost ${lost}`, `doubled ${doubled}`, `pushed again ${pushedAgain}`];
  const seldom = Object.entries({ unseen, 'destroyed on the disk': excused, stale }).filter(([, count]) => count > 0);
  return [...always, `overtaken ${overtaken}`, ...seldom.map(([what, count]) => `${what} ${count}`)];
}
