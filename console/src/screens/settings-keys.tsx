// API keys of the user's machines: what each may do, for which product, and its value, which is shown once.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { InputError } from '../errors.ts';
import { AskFirst, Dialog, Once } from '../parts/dialog.tsx';
import { Field, Form } from '../parts/form.tsx';
import { Paged, usePagedList } from '../parts/paged.tsx';
import { ago } from '../state/clock.ts';
import { session } from '../state/session.ts';
import { accountTexts } from '../texts/account.ts';
import { ProductField } from './product-field.tsx';

const words = accountTexts.keys;
export type Key = Data<Client['users']['api-keys']['$get']>['list'][number];
type Scope = keyof typeof words.scopes;
const scopes = Object.keys(words.scopes) as Scope[];

export function ApiKeys() {
  const api = session().api.users['api-keys'];
  const list = usePagedList(
    (query) => dataOf(api.$get({ query })),
    ({ keyId }) => keyId,
  );
  const made = useSignal<{ keyId: string; apiKey: string } | null>(null);
  return (
    <section class="card" aria-label={words.title}>
      <h2>{words.title}</h2>
      <p class="hint">{words.hint}</p>
      <Paged list={list} empty={<p>{words.none}</p>}>
        {(key) => (
          <KeyRow
            key={key.keyId}
            apiKey={key}
            onRemove={async () => {
              await dataOf(api[':keyId'].$delete({ param: { keyId: key.keyId } }));
              await list.reload();
            }}
          />
        )}
      </Paged>
      <h3>{words.create}</h3>
      <Form
        submit={words.create}
        isEmptied
        explain={{ not_found: words.noProduct }}
        onSubmit={async ({ description = '', productKey = '' }, data) => {
          const wanted = scopes.filter((scope) => data.has(scope));
          if (wanted.length === 0) throw new InputError(words.noScope);
          const limited = { scopes: wanted, ...(productKey !== '' && { productKey }) };
          made.value = await dataOf(api.$post({ json: { description, ...limited } }));
          await list.reload();
        }}
      >
        <Field label={words.description} name="description" maxLength={200} />
        <fieldset class="group">
          <legend>{words.may}</legend>
          {scopes.map((scope) => (
            <label key={scope} class="check">
              <input type="checkbox" name={scope} defaultChecked={scope === 'read'} /> {words.scopes[scope]}
            </label>
          ))}
        </fieldset>
        <ProductField />
      </Form>
      {made.value !== null && (
        <Dialog title={words.shown} onClose={() => (made.value = null)}>
          <p>{words.shownHint}</p>
          <Once label={words.keyId} value={made.value.keyId} />
          <Once label={words.keyValue} value={made.value.apiKey} />
        </Dialog>
      )}
    </section>
  );
}

type KeyRowProps = {
  apiKey: Key;
  /** What its removal is called. */
  removal?: Pick<typeof words, 'remove' | 'removeOf' | 'removeWarning'>;
  onRemove: () => Promise<void>;
};

export function KeyRow({ apiKey, removal = words, onRemove }: KeyRowProps) {
  const { keyId, description, lastUsedAt, productKey, deviceIds } = apiKey;
  const limits = [productKey ?? [], deviceIds === null ? [] : words.devices(deviceIds.length)].flat();
  const name = description === '' ? keyId : description;
  const used = lastUsedAt === null ? words.neverUsed : words.lastUsed(ago(Date.parse(lastUsedAt)));
  return (
    <li class="item">
      <div>
        <strong>{name}</strong>
        <p class="hint">
          <code>{keyId}</code> · {apiKey.scopes.map((scope) => words.scopeNames[scope]).join(', ')} ·{' '}
          {limits.length === 0 ? words.unlimited : limits.join(' · ')} · {used}
        </p>
      </div>
      <AskFirst
        label={removal.remove}
        name={removal.removeOf(name)}
        warning={removal.removeWarning}
        confirm={removal.remove}
        onConfirm={onRemove}
      />
    </li>
  );
}
