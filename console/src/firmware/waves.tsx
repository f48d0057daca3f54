// The waves of a campaign: what came of the devices of each, as a bar and in words.
import { firmwareTexts, type Campaign } from '../texts/firmware.ts';
import { barsOf } from './outcomes.ts';

const words = firmwareTexts.campaign;
type Wave = Campaign['waves'][number];

export function Waves({ campaign: { waves, wave: present, order, endedAt } }: { campaign: Campaign }) {
  return (
    <section class="card" aria-label={words.waves}>
      <h2>{words.waves}</h2>
      <ol class="plain">
        {waves.map((wave, index) => (
          <li key={index} class="wave">
            <h3>
              {words.wave(index + 1)} <small>{planOf(order.waves[index])}</small>{' '}
              {index === present && endedAt === null && <span class="tag">{words.now}</span>}
            </h3>
            {wave.devices === 0 ? <p class="hint">{words.notBegun}</p> : <Outcomes wave={wave} />}
          </li>
        ))}
      </ol>
    </section>
  );
}

function Outcomes({ wave: { outcomes, away, usuallyAway } }: { wave: Wave }) {
  const bars = barsOf(outcomes);
  return (
    <>
      <div class="outcomes" aria-hidden="true">
        {bars.map(([bar, count]) => (
          <span key={bar} class={bar} style={{ flexGrow: count }} />
        ))}
      </div>
      <ul class="counts">
        {bars.map(([bar, count]) => (
          <li key={bar} class={bar}>
            {words.count(count, words.bars[bar])}
          </li>
        ))}
      </ul>
      <p class="hint">{words.away(away, usuallyAway)}</p>
    </>
  );
}

function planOf(wave: Campaign['order']['waves'][number] | undefined): string {
  if (wave === undefined) return '';
  return 'devices' in wave ? words.named(wave.devices.length) : words.percent(wave.percent);
}
