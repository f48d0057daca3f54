// One webhook: whether it is on, a test, its deliveries, its settings and its secret; or the form for a new one.
import { dataOf } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { AskFirst, Dialog, Once } from '../parts/dialog.tsx';
import { Action, Problem } from '../parts/form.tsx';
import { useRead } from '../parts/read.ts';
import { Title } from '../parts/title.tsx';
import { goTo, hrefOf } from '../router.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { webhooksTexts as words } from '../texts/telling.ts';
import { Attempt, Deliveries } from './deliveries.tsx';
import { WebhookForm } from './webhook-form.tsx';
import { WebhookState, type Webhook } from './webhooks.tsx';

export function WebhookScreen({ webhookId }: { webhookId: string | null }) {
  return (
    <main id="content" class={webhookId === null ? 'narrow' : undefined}>
      <p class="back">
        <a href={hrefOf({ screen: 'settings', tab: 'webhooks' })}>← {words.back}</a>
      </p>
      {webhookId === null ? <NewWebhook /> : <ExistingWebhook webhookId={webhookId} />}
    </main>
  );
}

function NewWebhook() {
  const made = useSignal<{ webhookId: string; secret: string } | null>(null);
  return (
    <>
      <Title>{words.make}</Title>
      <section class="card" aria-label={words.make}>
        <WebhookForm
          webhook={null}
          onSave={async (json) => {
            made.value = await dataOf(session().api.webhooks.$post({ json }));
          }}
        />
      </section>
      {made.value !== null && (
        <ShownSecret
          secret={made.value.secret}
          onClose={() => goTo({ screen: 'webhook', webhookId: made.value?.webhookId ?? null })}
        />
      )}
    </>
  );
}

function ExistingWebhook({ webhookId }: { webhookId: string }) {
  const api = session().api.webhooks[':webhookId'];
  const param = { webhookId };
  const { value: webhook, problem } = useRead<Webhook>(() => dataOf(api.$get({ param })), words.explain);
  const found = webhook.value;
  if (found === null) return problem === '' ? <p>{texts.loading}</p> : <Problem text={problem} />;
  return (
    <>
      <header class="device-head">
        <Title>{found.url}</Title>
        <WebhookState webhook={found} />
      </header>
      {found.disabledBecause !== null && (
        <div class="notice warn">
          <p>
            {words.ends[found.disabledBecause]} {words.enableHint}
          </p>
          <Action
            label={words.enable}
            onPress={async () => {
              webhook.value = await dataOf(api.$patch({ param, json: {} }));
            }}
          />
        </div>
      )}
      <div class="columns">
        <div>
          <Deliveries webhookId={webhookId} />
        </div>
        <div>
          <Test webhookId={webhookId} />
          <section class="card" aria-label={words.form.title}>
            <h2>{words.form.title}</h2>
            <WebhookForm
              webhook={found}
              onSave={async (json) => {
                webhook.value = await dataOf(api.$patch({ param, json }));
              }}
            />
          </section>
          <Secret webhookId={webhookId} />
        </div>
      </div>
    </>
  );
}

function Test({ webhookId }: { webhookId: string }) {
  const send = () => dataOf(session().api.webhooks[':webhookId'].test.$post({ param: { webhookId } }));
  const result = useSignal<Awaited<ReturnType<typeof send>> | null>(null);
  const { send: label, title, hint, signed, signature } = words.test;
  return (
    <section class="card" aria-label={title}>
      <h2>{title}</h2>
      <p class="hint">{hint}</p>
      <Action
        label={label}
        onPress={async () => {
          result.value = null;
          result.value = await send();
        }}
      />
      <div class="journey" aria-live="polite">
        {result.value !== null && <Attempt attempt={result.value} />}
      </div>
      {result.value !== null && (
        <details class="more">
          <summary>{signed}</summary>
          <pre>{result.value.signed}</pre>
          <p class="hint">{signature}</p>
          <code>{result.value.signature}</code>
        </details>
      )}
    </section>
  );
}

function Secret({ webhookId }: { webhookId: string }) {
  const api = session().api.webhooks[':webhookId'];
  const secret = useSignal('');
  const { title, hint, replace, replaceWarning, replaceConfirm } = words.secret;
  return (
    <section class="card" aria-label={title}>
      <h2>{title}</h2>
      <p class="hint">{hint}</p>
      <div class="actions">
        <AskFirst
          label={replace}
          warning={replaceWarning}
          confirm={replaceConfirm}
          onConfirm={async () => {
            ({ secret: secret.value } = await dataOf(api.secret.$post({ param: { webhookId } })));
          }}
        />
        <AskFirst
          label={words.remove}
          kind="danger"
          warning={words.removeWarning}
          confirm={words.removeConfirm}
          onConfirm={async () => {
            await dataOf(api.$delete({ param: { webhookId } }));
            goTo({ screen: 'settings', tab: 'webhooks' });
          }}
        />
      </div>
      {secret.value !== '' && <ShownSecret secret={secret.value} onClose={() => (secret.value = '')} />}
    </section>
  );
}

function ShownSecret({ secret, onClose }: { secret: string; onClose: () => void }) {
  return (
    <Dialog title={words.secret.shown} onClose={onClose}>
      <p>{words.secret.shownHint}</p>
      <Once label={words.secret.value} value={secret} />
    </Dialog>
  );
}
