// The public keys that sign the firmware of a product, and how a maker signs.
import { dataOf } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { InputError } from '../errors.ts';
import { AskFirst } from '../parts/dialog.tsx';
import { Field, Form, Problem, TextArea } from '../parts/form.tsx';
import { useRead } from '../parts/read.ts';
import { ago } from '../state/clock.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { firmwareTexts } from '../texts/firmware.ts';

const words = firmwareTexts.keys;
const { signing } = firmwareTexts;

export function Keys({ productKey }: { productKey: string }) {
  const version = useSignal(0);
  const api = session().api.products[':productKey']['firmware-keys'];
  const { value: keys, problem } = useRead(() => dataOf(api.$get({ param: { productKey } })), {}, version.value);
  const list = keys.value?.list;
  return (
    <section class="card" aria-label={words.title}>
      <h2>{words.title}</h2>
      <p class="hint">{words.hint}</p>
      <Problem text={problem} />
      {list === undefined && problem === '' && <p>{texts.loading}</p>}
      {list?.length === 0 && <p>{words.none}</p>}
      <ul class="plain">
        {list?.map(({ keyId, algorithm, createdAt }) => (
          <li key={keyId} class="item">
            <div>
              <code>{keyId}</code>
              <p class="hint">
                {words.algorithms[algorithm]} · {words.added(ago(Date.parse(createdAt)))}
              </p>
            </div>
            <AskFirst
              label={words.remove}
              name={words.removeOf(keyId)}
              warning={words.removeWarning}
              confirm={words.remove}
              onConfirm={async () => {
                await dataOf(api[':firmwareKeyId'].$delete({ param: { productKey, firmwareKeyId: keyId } }));
                version.value += 1;
              }}
            />
          </li>
        ))}
      </ul>
      <Form
        submit={words.add}
        isEmptied
        explain={words.explain}
        onSubmit={async ({ pem = '' }, form) => {
          const file = form.get('file');
          const publicKey = file instanceof File && file.size > 0 ? await file.text() : pem;
          if (publicKey.trim() === '') throw new InputError(words.noneGiven);
          await dataOf(api.$post({ param: { productKey }, json: { publicKey } }));
          version.value += 1;
        }}
      >
        <TextArea label={words.paste} name="pem" rows={4} />
        <Field label={words.file} name="file" type="file" accept=".pub,.pem" />
      </Form>
      <details class="more">
        <summary>{signing.title}</summary>
        <p class="hint">{signing.hint}</p>
        <pre>{signing.commands(productKey)}</pre>
        <p class="hint">
          {signing.more} <a href="/docs/firmware">{signing.guide}</a>
        </p>
      </details>
    </section>
  );
}
