// One campaign, live: whether it runs and why not, what came of its waves, and the devices of a wave.
import { dataOf } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { describeError } from '../errors.ts';
import { AskFirst } from '../parts/dialog.tsx';
import { Action, Problem } from '../parts/form.tsx';
import { Title } from '../parts/title.tsx';
import { hrefOf } from '../router.ts';
import { ago, clockTime } from '../state/clock.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { firmwareTexts, type Campaign } from '../texts/firmware.ts';
import { CampaignState } from './campaigns.tsx';
import { useFollowed } from './followed.ts';
import { barsOf } from './outcomes.ts';
import { pagesOf, pageSize, WaveDevices, type Shown } from './wave-devices.tsx';
import { Waves } from './waves.tsx';

const words = firmwareTexts.campaign;
type Change = 'pause' | 'resume' | 'stop';

export function CampaignScreen({ productKey, campaignId }: { productKey: string; campaignId: string }) {
  const api = session().api.products[':productKey'].campaigns[':campaignId'];
  const param = { productKey, campaignId };
  const shown = useSignal<Shown>({ wave: null, page: 0 });
  const page = useRef(1);
  const campaign = useFollowed(async () => {
    for (;;) {
      const query = { page: String(page.current), size: String(pageSize) };
      const read = await dataOf(api.$get({ param, query }));
      const wanted = pagesOf(read, shown.peek()).page;
      if (wanted === page.current) return read;
      page.current = wanted;
    }
  }, goesOn);
  const change = (to: Change) => async () => {
    await dataOf(api[':change'].$post({ param: { ...param, change: to } }));
    await campaign.read();
  };
  const found = campaign.value.value;
  const error = campaign.error.value;
  return (
    <main id="content">
      <link rel="stylesheet" href="console/waves.css" />
      <p class="back">
        <a href={hrefOf({ screen: 'product', productKey, tab: 'firmware' })}>← {words.back}</a>
      </p>
      <Problem text={error === null ? '' : describeError(error, words.explain)} />
      {found === null && error === null && <p>{texts.loading}</p>}
      {found !== null && (
        <>
          <Head campaign={found} change={change} />
          <div class="columns even">
            <Waves campaign={found} />
            <WaveDevices
              campaign={found}
              shown={shown.value}
              onShow={(other) => {
                shown.value = other;
                campaign.refresh();
              }}
            />
          </div>
        </>
      )}
    </main>
  );
}

/** One that is over is followed until each device that has the image has an end. */
function goesOn({ state, waves }: Campaign): boolean {
  const isUnderWay = waves.some(({ outcomes }) => barsOf(outcomes).some(([bar]) => bar === 'under_way'));
  return state === 'running' || isUnderWay;
}

function Head({ campaign, change }: { campaign: Campaign; change: (to: Change) => () => Promise<void> }) {
  const { version, state, pausedBecause, createdAt, endedAt, order } = campaign;
  const { window, from, to } = order;
  const facts = [
    firmwareTexts.campaigns.started(ago(Date.parse(createdAt))),
    endedAt === null ? [] : words.ended(clockTime(Date.parse(endedAt))),
    window === undefined ? [] : words.window(window.begin, window.end),
    from === undefined ? [] : words.from(clockTime(Date.parse(from))),
    to === undefined ? [] : words.to(clockTime(Date.parse(to))),
  ].flat();
  return (
    <>
      <header class="device-head">
        <Title>{firmwareTexts.campaigns.name(version)}</Title>
        <span role="status">
          <CampaignState state={state} />
        </span>
        <p class="hint">{facts.join(' · ')}</p>
        {endedAt === null && (
          <div class="actions">
            {state === 'paused' ? (
              <Action label={words.resume} kind="primary" onPress={change('resume')} />
            ) : (
              <Action label={words.pause} onPress={change('pause')} />
            )}
            <AskFirst
              label={words.stop}
              kind="danger"
              warning={words.stopWarning}
              confirm={words.stopConfirm}
              onConfirm={change('stop')}
            />
          </div>
        )}
      </header>
      {pausedBecause !== null && <p class="notice warn">{words.causes[pausedBecause]}</p>}
    </>
  );
}
