// The devices of one wave, page by page: how far each is, and why it came no further. Names are known of the user's own devices alone.
import { Select } from '../parts/form.tsx';
import { useRead } from '../parts/read.ts';
import { hrefOf } from '../router.ts';
import { ago } from '../state/clock.ts';
import { nameOf, readDevices } from '../state/device-names.ts';
import { texts } from '../texts.ts';
import { firmwareTexts, type Campaign } from '../texts/firmware.ts';
import { kindOf, outcomeWords } from './outcomes.ts';

const words = firmwareTexts.campaign;
/** A wave, if it is not the one under way, and a page of its devices, from 0. */
export type Shown = { wave: number | null; page: number };
export const pageSize = 50;

/** Pages of the campaign's list, in which the waves come one after the other: that of `shown`, the first and the last of its wave. */
export function pagesOf({ waves, wave: present }: Campaign, shown: Shown) {
  const wave = shown.wave ?? present;
  const before = waves.slice(0, wave).reduce((sum, { devices }) => sum + devices, 0);
  const end = before + Math.max(waves[wave]?.devices ?? 0, 1);
  const first = Math.floor(before / pageSize) + 1;
  const last = Math.ceil(end / pageSize);
  return { wave, page: Math.min(first + shown.page, last), first, last };
}

type Props = { campaign: Campaign; shown: Shown; onShow: (shown: Shown) => void };

export function WaveDevices({ campaign, shown, onShow }: Props) {
  useRead(readDevices);
  const { wave, page, first, last } = pagesOf(campaign, shown);
  const begun = campaign.waves.flatMap(({ devices }, index) => (devices > 0 ? [index] : []));
  const devices = campaign.list.filter((device) => device.wave === wave);
  const beside = (label: string, to: number) => (
    <button type="button" disabled={to < first || to > last} onClick={() => onShow({ wave, page: to - first })}>
      {label}
    </button>
  );
  return (
    <section class="card" aria-label={words.devices}>
      <h2>{words.devices}</h2>
      {begun.length > 1 && (
        <Select
          label={words.ofWave}
          name="wave"
          value={String(wave)}
          options={begun.map((index) => [String(index), String(index + 1)])}
          onChange={(index) => onShow({ wave: Number(index), page: 0 })}
        />
      )}
      {begun.length === 0 && <p class="hint">{words.noDevices}</p>}
      {begun.length > 0 && campaign.page !== page && <p>{texts.loading}</p>}
      <ul class="plain">
        {devices.map(({ deviceId, state, reason, since }) => (
          <li key={deviceId} class="item">
            <div>
              <a href={hrefOf({ screen: 'device', deviceId, tab: 'firmware' })}>{nameOf(deviceId)}</a>
              <br />
              <span class={`outcome ${kindOf(state)}`}>{outcomeWords({ state, reason })}</span>
            </div>
            {state !== 'waiting' && <span class="hint">{words.since(ago(Date.parse(since)))}</span>}
          </li>
        ))}
      </ul>
      {last > first && (
        <div class="actions">
          {beside(words.previous, page - 1)}
          <span role="status">{words.page(page - first + 1, last - first + 1)}</span>
          {beside(words.next, page + 1)}
        </div>
      )}
    </section>
  );
}
