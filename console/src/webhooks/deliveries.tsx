// The last deliveries of a webhook, each attempt on its own, and the form that has events delivered again.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { Action, Field, Form } from '../parts/form.tsx';
import { Paged, usePagedList } from '../parts/paged.tsx';
import { hrefOf } from '../router.ts';
import { ago, clockTime } from '../state/clock.ts';
import { session } from '../state/session.ts';
import { webhooksTexts } from '../texts/telling.ts';

const words = webhooksTexts.deliveries;
type Delivery = Data<Client['webhooks'][':webhookId']['deliveries']['$get']>['list'][number];
type Start = { deviceId: string; from: string };

export function Deliveries({ webhookId }: { webhookId: string }) {
  const param = { webhookId };
  const list = usePagedList(
    (query) => dataOf(session().api.webhooks[':webhookId'].deliveries.$get({ param, query })),
    ({ messageId, at }) => `${messageId} ${at}`,
  );
  const start = useSignal<Start | null>(null);
  return (
    <>
      <section class="card" aria-label={words.title}>
        <div class="bar">
          <h2>{words.title}</h2>
          <Action label={words.look} onPress={() => list.reload()} />
        </div>
        <p class="hint">{words.hint}</p>
        <Paged list={list} empty={<p>{words.none}</p>}>
          {(delivery) => (
            <Row
              key={`${delivery.messageId} ${delivery.at}`}
              delivery={delivery}
              onFrom={(from) => (start.value = { deviceId: delivery.deviceId, from })}
            />
          )}
        </Paged>
      </section>
      <Again key={JSON.stringify(start.value)} webhookId={webhookId} start={start.value} />
    </>
  );
}

function Row({ delivery, onFrom }: { delivery: Delivery; onFrom: (number: string) => void }) {
  const { messageId, type, deviceId, at } = delivery;
  // `msg_<device>_<number>`; of a gap both its ends.
  const number = /_(\d+)(?:-\d+)?$/.exec(messageId)?.[1];
  return (
    <li class="item">
      <div>
        <strong>{type}</strong> <a href={hrefOf({ screen: 'device', deviceId })}>{deviceId}</a>
        <Attempt attempt={delivery} />
        <p class="hint">
          <time dateTime={at} title={clockTime(Date.parse(at))}>
            {ago(Date.parse(at))}
          </time>
          {number !== undefined && ` · ${type === 'gap' ? words.gap : words.event(number)}`}
        </p>
      </div>
      {number !== undefined && (
        <button type="button" aria-label={words.fromOf(type, number)} onClick={() => onFrom(number)}>
          {words.from}
        </button>
      )}
    </li>
  );
}

/** What came of one request. */
export function Attempt({ attempt }: { attempt: Pick<Delivery, 'status' | 'problem' | 'tookMs'> }) {
  const { status, problem, tookMs } = attempt;
  const isDelivered = status !== null && status >= 200 && status < 300;
  const why = problem === null ? '' : words.problems[problem];
  return (
    <div>
      <span class={`outcome ${isDelivered ? 'good' : 'bad'}`}>
        {status === null ? words.unanswered(why, tookMs) : words.answered(status, tookMs)}
      </span>
    </div>
  );
}

/** @param start of a delivery that was chosen: only the button is left to press */
function Again({ webhookId, start }: { webhookId: string; start: Start | null }) {
  const { title, hint, device, deviceHint, from, submit, done, explain } = webhooksTexts.again;
  return (
    <section class="card" aria-label={title}>
      <h2>{title}</h2>
      <p class="hint">{hint}</p>
      <Form
        submit={submit}
        done={done}
        explain={explain}
        isFilledIn={start !== null}
        onSubmit={async ({ deviceId = '', from: number = '' }) => {
          const json = { deviceId: deviceId.trim(), from: Number(number) };
          await dataOf(session().api.webhooks[':webhookId'].redeliver.$post({ param: { webhookId }, json }));
        }}
      >
        <div class="pair">
          <Field label={device} hint={deviceHint} name="deviceId" value={start?.deviceId ?? ''} required />
          <Field label={from} name="from" type="number" min={1} value={start?.from ?? ''} required />
        </div>
      </Form>
    </section>
  );
}
