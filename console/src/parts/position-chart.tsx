// The positions that a device reported, as steps over time.
import { clockTime, nowMs } from '../state/clock.ts';
import { staleSinceMs } from '../state/live.ts';
import { texts } from '../texts.ts';

type Change = { position: 'up' | 'middle' | 'down'; time: string };
const width = 600;
const height = 96;
const lines = { up: 16, middle: 48, down: 80 };

/** @param changes newest first */
export function PositionChart({ changes }: { changes: readonly Change[] }) {
  const oldest = changes.at(-1);
  if (oldest === undefined) return <p class="hint">{texts.device.historyEmpty}</p>;
  const fromMs = Date.parse(oldest.time);
  // Without a connection the line ends where knowledge ends.
  const toMs = staleSinceMs.value ?? nowMs.value;
  const spanMs = Math.max(1000, toMs - fromMs);
  const x = (timeMs: number): number => ((timeMs - fromMs) / spanMs) * width;
  const path = changes
    .toReversed()
    .map(
      ({ position, time }, index) =>
        `${index === 0 ? 'M' : 'H'}${x(Date.parse(time)).toFixed(1)}${index === 0 ? ` ${lines[position]}` : ` V${lines[position]}`}`,
    )
    .join(' ');
  return (
    <figure class="chart">
      <div class="levels" aria-hidden="true">
        {Object.keys(lines).map((position) => (
          <span key={position}>{texts.position[position as keyof typeof lines]}</span>
        ))}
      </div>
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={texts.device.history} preserveAspectRatio="none">
        {Object.values(lines).map((y) => (
          <line key={y} x1="0" x2={width} y1={y} y2={y} class="grid" />
        ))}
        <path d={`${path} H${width}`} class="line" />
      </svg>
      <figcaption>
        <span>{clockTime(fromMs)}</span>
        <span>{clockTime(toMs)}</span>
      </figcaption>
    </figure>
  );
}
