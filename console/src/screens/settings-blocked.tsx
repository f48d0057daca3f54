// Senders whose invitations and offers the user does not want. Shows nothing while there are none.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { useMemo } from 'preact/hooks';
import { Action } from '../parts/form.tsx';
import { Paged } from '../parts/paged.tsx';
import { PagedList } from '../state/paged-list.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';

const words = texts.blocked;
type Blocked = Data<Client['users']['me']['blocked-senders']['$get']>['list'][number];

export function BlockedSenders() {
  const api = session().api.users.me['blocked-senders'];
  const list = useMemo(
    () =>
      new PagedList<Blocked>(
        (query) => dataOf(api.$get({ query })),
        ({ userId }) => String(userId),
      ),
    [],
  );
  if (list.items.value?.length === 0 && list.error.value === null) return null;
  return (
    <section class="card" aria-label={words.title}>
      <h2>{words.title}</h2>
      <p class="hint">{words.hint}</p>
      <Paged list={list} empty={null}>
        {({ userId, email }) => (
          <li key={userId} class="item">
            <strong>{email}</strong>
            <Action
              label={words.unblock}
              name={words.unblockOf(email)}
              onPress={async () => {
                await dataOf(api[':userId'].$delete({ param: { userId: String(userId) } }));
                await list.reload();
              }}
            />
          </li>
        )}
      </Paged>
    </section>
  );
}
