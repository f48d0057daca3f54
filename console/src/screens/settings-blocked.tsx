// Senders whose invitations and offers the user does not want. Shows nothing while there are none.
import { dataOf } from '@latchwork/client';
import { Action } from '../parts/form.tsx';
import { Paged, usePagedList } from '../parts/paged.tsx';
import { session } from '../state/session.ts';
import { accountTexts } from '../texts/account.ts';

const words = accountTexts.blocked;

export function BlockedSenders() {
  const api = session().api.users.me['blocked-senders'];
  const list = usePagedList(
    (query) => dataOf(api.$get({ query })),
    ({ userId }) => String(userId),
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
