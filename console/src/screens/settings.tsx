// The account, its sessions and its API keys.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { describeError } from '../errors.ts';
import { Dialog, Once } from '../parts/dialog.tsx';
import { Action, Field, Form, Problem } from '../parts/form.tsx';
import { ago } from '../state/clock.ts';
import { session, signOut } from '../state/session.ts';
import { texts } from '../texts.ts';

const words = texts.settings;

export function Settings() {
  return (
    <main id="content" class="narrow">
      <h1>{words.title}</h1>
      <Account />
      <ApiKeys />
    </main>
  );
}

function Account() {
  const name = useSignal('');
  const problem = useSignal('');
  const isChanged = useSignal(false);
  useEffect(() => {
    dataOf(session().api.users.me.$get()).then(
      ({ username }) => (name.value = username),
      (error: unknown) => (problem.value = describeError(error)),
    );
  }, []);
  return (
    <section class="card">
      <h2>{words.account}</h2>
      <p>{name}</p>
      <Problem text={problem.value} />
      <Action label={words.signOut} onPress={signOut} />
      <h3>{words.password}</h3>
      <Form
        submit={words.password}
        onSubmit={async ({ oldPassword = '', newPassword = '' }) => {
          isChanged.value = false;
          await dataOf(session().api.users.password.$put({ json: { oldPassword, newPassword } }));
          isChanged.value = true;
        }}
      >
        <Field label={words.oldPassword} name="oldPassword" type="password" required autoComplete="current-password" />
        <Field
          label={words.newPassword}
          hint={texts.signIn.passwordHint}
          name="newPassword"
          type="password"
          required
          autoComplete="new-password"
        />
      </Form>
      <p role="status">{isChanged.value ? words.passwordChanged : ''}</p>
    </section>
  );
}

function ApiKeys() {
  type Key = Data<Client['users']['api-keys']['$get']>['list'][number];
  const keys = useSignal<readonly Key[] | null>(null);
  const problem = useSignal('');
  const made = useSignal<{ keyId: string; apiKey: string } | null>(null);
  const api = session().api.users['api-keys'];
  const read = async (): Promise<void> => {
    keys.value = (await dataOf(api.$get({ query: { page: '1', size: '100' } }))).list;
  };
  useEffect(() => {
    read().catch((error: unknown) => (problem.value = describeError(error)));
  }, []);
  return (
    <section class="card">
      <h2>{words.keys}</h2>
      <p class="hint">{words.keysHint}</p>
      <Problem text={problem.value} />
      {keys.value?.length === 0 && <p>{words.noKeys}</p>}
      <ul class="plain">
        {keys.value?.map(({ keyId, description, lastUsedAt }) => (
          <li key={keyId}>
            <strong>{description === '' ? keyId : description}</strong> <code>{keyId}</code>{' '}
            <small>{lastUsedAt === null ? words.neverUsed : words.lastUsed(ago(Date.parse(lastUsedAt)))}</small>{' '}
            <Action
              label={words.removeKey}
              onPress={async () => {
                await dataOf(api[':keyId'].$delete({ param: { keyId } }));
                await read();
              }}
            />
          </li>
        ))}
      </ul>
      <Form
        submit={words.createKey}
        onSubmit={async ({ description = '' }) => {
          made.value = await dataOf(api.$post({ json: { description } }));
          await read();
        }}
      >
        <Field label={words.keyDescription} name="description" maxLength={200} />
      </Form>
      {made.value !== null && (
        <Dialog title={words.keyShown} onClose={() => (made.value = null)}>
          <Once label={words.keyId} value={made.value.keyId} />
          <Once label={words.keyValue} value={made.value.apiKey} />
        </Dialog>
      )}
    </section>
  );
}
