// The user's webhooks, as a tab of the settings. Each has a page of its own.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { Paged, usePagedList } from '../parts/paged.tsx';
import { hrefOf } from '../router.ts';
import { session } from '../state/session.ts';
import { accountTexts } from '../texts/account.ts';
import { webhooksTexts as words } from '../texts/telling.ts';

export type Webhook = Data<Client['webhooks'][':webhookId']['$get']>;

export function Webhooks() {
  const list = usePagedList(
    (query) => dataOf(session().api.webhooks.$get({ query })),
    ({ webhookId }) => webhookId,
  );
  return (
    <section class="card" aria-label={words.title}>
      <div class="bar">
        <h2>{words.title}</h2>
        <a class="button primary" href={hrefOf({ screen: 'webhook', webhookId: null })}>
          {words.make}
        </a>
      </div>
      <p class="hint">{words.hint}</p>
      <Paged list={list} empty={<p>{words.none}</p>}>
        {(webhook) => <Row key={webhook.webhookId} webhook={webhook} />}
      </Paged>
    </section>
  );
}

function Row({ webhook }: { webhook: Webhook }) {
  const { webhookId, url, types, productKey, deviceIds, disabledBecause } = webhook;
  const devices = deviceIds === null ? words.allDevices : words.devices(deviceIds.length);
  return (
    <li class="item">
      <div>
        <a href={hrefOf({ screen: 'webhook', webhookId })}>
          <strong>{url}</strong>
        </a>
        <p class="hint">
          {types.join(', ')} · {productKey ?? accountTexts.keys.allProducts} · {devices}
        </p>
        {disabledBecause !== null && <p>{words.ends[disabledBecause]}</p>}
      </div>
      <WebhookState webhook={webhook} />
    </li>
  );
}

export function WebhookState({ webhook: { disabledBecause } }: { webhook: Webhook }) {
  if (disabledBecause === null) return <span class="status online">{words.on}</span>;
  return <span class="status disabled">{words.off}</span>;
}
