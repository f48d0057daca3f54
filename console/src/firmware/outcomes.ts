// What became of the update of a device, in words, as good or bad, and as one of the bars of its wave.
import { explainReason } from '../errors.ts';
import { firmwareTexts, updateTexts, type Outcome } from '../texts/firmware.ts';

export type Bar = keyof typeof firmwareTexts.campaign.bars;

const barOf: Record<Outcome, Bar> = {
  waiting: 'waiting',
  skipped: 'left_out',
  offered: 'under_way',
  postponed: 'postponed',
  accepted: 'under_way',
  downloading: 'under_way',
  downloaded: 'under_way',
  restarting: 'under_way',
  proved: 'proved',
  rolled_back: 'rolled_back',
  failed: 'failed',
  unknown: 'unknown',
  superseded: 'left_out',
};

/** @param outcomes how many devices are in each state */
export function barsOf(outcomes: Readonly<Record<string, number>>): (readonly [Bar, number])[] {
  const counts = new Map<Bar, number>();
  for (const [outcome, count] of Object.entries(outcomes)) {
    const bar = barOf[outcome as Outcome];
    counts.set(bar, (counts.get(bar) ?? 0) + count);
  }
  const order = Object.keys(firmwareTexts.campaign.bars) as Bar[];
  return order.flatMap((bar) => (counts.has(bar) ? [[bar, counts.get(bar) ?? 0] as const] : []));
}

export function kindOf(outcome: Outcome): 'good' | 'bad' | 'open' {
  if (outcome === 'proved') return 'good';
  return outcome === 'rolled_back' || outcome === 'failed' || outcome === 'unknown' ? 'bad' : 'open';
}

/** How far it is, and why it came no further. */
export function outcomeWords(update: { state: Outcome; reason: string | null; error?: string | null }): string {
  const { state, reason, error = null } = update;
  const text = updateTexts.states[state];
  if (error !== null) return `${text}: ${updateTexts.error(error)}`;
  return reason === null ? text : `${text}: ${explainReason(reason, updateTexts.reasons)}`;
}
