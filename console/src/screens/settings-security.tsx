// What concerned the safety of the account: sign-ins, wrong passwords, keys, sessions, and whose devices are.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { Paged, usePagedList } from '../parts/paged.tsx';
import { ago } from '../state/clock.ts';
import { session } from '../state/session.ts';
import { accountTexts } from '../texts/account.ts';

const words = accountTexts.security;
type SecurityEvent = Data<Client['users']['me']['security-events']['$get']>['list'][number];

export function SecurityEvents() {
  const api = session().api.users.me['security-events'];
  const list = usePagedList(
    (query) => dataOf(api.$get({ query })),
    ({ kind, at, detail }) => JSON.stringify([at, kind, detail]),
  );
  return (
    <section class="card" aria-label={words.title}>
      <h2>{words.title}</h2>
      <p class="hint">{words.hint}</p>
      <Paged list={list} empty={<p>{words.none}</p>}>
        {(event) => <Row key={JSON.stringify(event)} event={event} />}
      </Paged>
    </section>
  );
}

function Row({ event: { kind, at, count, clientAddress, detail } }: { event: SecurityEvent }) {
  const facts = [clientAddress ?? '', ...Object.values(detail).map(String)].filter((fact) => fact !== '');
  return (
    <li class="item">
      <div>
        <strong>
          {words.kinds[kind]}
          {count > 1 && ` · ${words.times(count)}`}
        </strong>
        <p class="hint">{[ago(Date.parse(at)), ...facts].join(' · ')}</p>
      </div>
    </li>
  );
}
