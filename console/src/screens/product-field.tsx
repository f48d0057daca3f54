// The field for the product that an API key or a webhook is limited to.
import { dataOf } from '@latchwork/client';
import { useId } from 'preact/hooks';
import { Problem } from '../parts/form.tsx';
import { useRead } from '../parts/read.ts';
import { session } from '../state/session.ts';
import { accountTexts } from '../texts/account.ts';

const words = accountTexts.keys;

/** Typed, with the newest products offered: a catalogue may be longer than a list that is pleasant to scroll. */
export function ProductField({ value = '' }: { value?: string }) {
  const id = useId();
  const query = { page: '1', size: '100' };
  const { value: products, problem } = useRead(() => dataOf(session().api.products.$get({ query })));
  return (
    <div class="field">
      <label for={id}>{words.product}</label>
      <input
        id={id}
        name="productKey"
        defaultValue={value}
        list={`${id}-list`}
        maxLength={64}
        aria-describedby={`${id}-hint`}
      />
      <p id={`${id}-hint`} class="hint">
        {words.productHint}
      </p>
      <datalist id={`${id}-list`}>
        {products.value?.list.map(({ productKey, name }) => (
          <option key={productKey} value={productKey}>
            {name}
          </option>
        ))}
      </datalist>
      <Problem text={problem} />
    </div>
  );
}
