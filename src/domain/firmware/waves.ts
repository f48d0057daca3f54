// When a campaign may go on: whether it may offer now, and what a wave says of the next one. Pure.
import type { pauseCauses } from '../../protocol/vocabulary.ts';
import type { CampaignBody, CampaignOutcome } from '../../protocol/http/firmware.ts';
import { dayMs } from '../time.ts';

/** Of one wave. `absent`: are offered it, and offline. `usuallyAway`: how many of the updated devices are offline at other times. */
export type WaveCounts = {
  devices: number;
  absent: number;
  outcomes: Partial<Record<CampaignOutcome, number>>;
  away: number;
  usuallyAway: number;
};

const failures = ['rolled_back', 'failed', 'unknown'] as const satisfies CampaignOutcome[];
/** A device that waits for its owner holds up no other. */
const settled: readonly CampaignOutcome[] = [...failures, 'proved', 'skipped', 'superseded', 'postponed'];

const sumOf = ({ outcomes }: WaveCounts, wanted: readonly CampaignOutcome[]) =>
  wanted.reduce((sum, outcome) => sum + (outcomes[outcome] ?? 0), 0);

export const countFailures = (wave: WaveCounts): number => sumOf(wave, failures);
/** Devices that are away hold up no other, once one has shown that the image works. */
export const isSettled = (wave: WaveCounts): boolean =>
  sumOf(wave, settled) + wave.absent === wave.devices && (wave.absent === 0 || sumOf(wave, ['proved']) > 0);

/**
 * Why the wave has to be looked at by its maker before anything goes on; undefined if not.
 * @param forgiven failures that the maker knew when the campaign was resumed
 */
export function pauseCauseOf(
  wave: WaveCounts,
  { failedPercent, offlinePercent }: CampaignBody['stopAt'],
  forgiven: { failures: number; away: number },
): Exclude<(typeof pauseCauses)[number], 'maker'> | undefined {
  const failed = countFailures(wave);
  if (failed > forgiven.failures && failed > (wave.devices * failedPercent) / 100) return 'failures';
  const updated = sumOf(wave, ['proved', 'rolled_back', 'unknown', 'failed']);
  const allowed = wave.usuallyAway + (updated * offlinePercent) / 100;
  return wave.away > forgiven.away && wave.away > allowed ? 'away' : undefined;
}

export function mayOffer({ window, from, to }: Pick<CampaignBody, 'window' | 'from' | 'to'>, nowMs: number): boolean {
  if (from !== undefined && nowMs < Date.parse(from)) return false;
  if (isOver({ to }, nowMs)) return false;
  if (window === undefined) return true;
  const minutes = Math.floor((nowMs % dayMs) / 60_000);
  const [begin = 0, end = 0] = [window.begin, window.end].map(
    (time) => Number(time.slice(0, 2)) * 60 + Number(time.slice(3)),
  );
  return begin <= end ? minutes >= begin && minutes < end : minutes >= begin || minutes < end;
}

export const isOver = ({ to }: Pick<CampaignBody, 'to'>, nowMs: number): boolean =>
  to !== undefined && nowMs >= Date.parse(to);
