// The campaigns of a product, newest first, and the form that starts one.
import { dataOf } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { Dialog } from '../parts/dialog.tsx';
import { Paged, usePagedList } from '../parts/paged.tsx';
import { goTo, hrefOf } from '../router.ts';
import { ago } from '../state/clock.ts';
import { session } from '../state/session.ts';
import { firmwareTexts, type Campaign, type Firmware } from '../texts/firmware.ts';
import { CampaignForm } from './campaign-form.tsx';

const words = firmwareTexts.campaigns;

export function Campaigns({ productKey, images }: { productKey: string; images: readonly Firmware[] }) {
  const api = session().api.products[':productKey'].campaigns;
  const list = usePagedList(
    (query) => dataOf(api.$get({ param: { productKey }, query })),
    ({ campaignId }) => campaignId,
  );
  const isOpen = useSignal(false);
  const versions = images.flatMap(({ version, storedAt }) => (storedAt === null ? [] : [version]));
  return (
    <section class="card" aria-label={words.title}>
      <div class="bar">
        <h2>{words.title}</h2>
        {versions.length > 0 && (
          <button type="button" class="primary" onClick={() => (isOpen.value = true)}>
            {words.start}
          </button>
        )}
      </div>
      <p class="hint">{words.hint}</p>
      {versions.length === 0 && <p class="hint">{words.noImage}</p>}
      <Paged list={list} empty={<p>{words.none}</p>}>
        {({ campaignId, version, state, createdAt }) => (
          <li key={campaignId} class="item">
            <div>
              <a href={hrefOf({ screen: 'campaign', productKey, campaignId })}>{words.name(version)}</a>
              <p class="hint">{words.started(ago(Date.parse(createdAt)))}</p>
            </div>
            <CampaignState state={state} />
          </li>
        )}
      </Paged>
      {isOpen.value && (
        <Dialog title={words.start} onClose={() => (isOpen.value = false)}>
          <CampaignForm
            productKey={productKey}
            versions={versions}
            onSave={async (json) => {
              const { campaignId } = await dataOf(api.$post({ param: { productKey }, json }));
              goTo({ screen: 'campaign', productKey, campaignId });
            }}
          />
        </Dialog>
      )}
    </section>
  );
}

const kinds: Record<Campaign['state'], 'online' | 'disabled' | 'offline' | 'inactive'> = {
  running: 'online',
  paused: 'disabled',
  stopped: 'offline',
  done: 'inactive',
};

export function CampaignState({ state }: Pick<Campaign, 'state'>) {
  return <span class={`status ${kinds[state]}`}>{words.states[state]}</span>;
}
