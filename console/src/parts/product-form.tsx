// The fields of a product, for a new one and for one that is changed: all that the service keeps of it.
import type { Client } from '@latchwork/client';
import { Field, Form, Select } from './form.tsx';
import { productsTexts } from '../texts/products.ts';
import type { Product } from '../screens/products.tsx';

const words = productsTexts.products;

export type ProductBody = Parameters<Client['products']['$post']>[0]['json'];

type Props = { product: Product | null; onSave: (body: ProductBody) => Promise<void> };

/** What a form has for `reactivation: null`. */
const byDefault = 'default';

export function ProductForm({ product, onSave }: Props) {
  return (
    <Form submit={words.save} done={words.saved} explain={words.explain} onSubmit={(values) => onSave(bodyOf(values))}>
      {product === null && <Field label={words.key} hint={words.keyHint} name="productKey" required maxLength={64} />}
      <Field label={words.name} name="name" value={product?.name ?? ''} required maxLength={100} />
      <Field label={words.description} name="description" value={product?.description ?? ''} maxLength={1000} />
      <div class="pair">
        <Field label={words.category} name="category" value={product?.category ?? 'general'} required maxLength={100} />
        <Select
          label={words.controlMode}
          name="controlMode"
          value={product?.controlMode ?? 'toggle'}
          options={Object.entries(words.modes)}
        />
      </div>
      <fieldset class="group">
        <legend>{words.activating}</legend>
        <label class="check">
          <input type="checkbox" name="status" defaultChecked={product?.status !== 0} /> {words.enabled}
        </label>
        <Select
          label={words.activation}
          name="activation"
          value={product?.activation ?? 'open'}
          options={Object.entries(words.activations)}
        />
        <Select
          label={words.reactivation}
          name="reactivation"
          value={product?.reactivation ?? byDefault}
          options={Object.entries(words.reactivations)}
        />
        <Field
          label={words.grace}
          name="offlineGraceSeconds"
          type="number"
          min={0}
          max={60}
          required
          value={String(product?.offlineGraceSeconds ?? 5)}
        />
      </fieldset>
      <fieldset class="group">
        <legend>{words.looks}</legend>
        <div class="pair">
          <Field label={words.manufacturer} name="manufacturer" value={product?.manufacturer ?? ''} maxLength={100} />
          <Field label={words.model} name="model" value={product?.model ?? ''} maxLength={100} />
          <Field
            label={words.iconName}
            hint={words.iconNameHint}
            name="iconName"
            value={product?.iconName ?? 'toggle_on'}
            required
            maxLength={64}
          />
          <Field
            label={words.uiTemplate}
            hint={words.uiTemplateHint}
            name="uiTemplate"
            value={product?.uiTemplate ?? 'generic'}
            required
            maxLength={64}
          />
        </div>
        <Field label={words.iconColor} name="iconColor" type="color" value={product?.iconColor ?? '#2196f3'} />
      </fieldset>
    </Form>
  );
}

function bodyOf(values: Record<string, string>): ProductBody {
  const { status, offlineGraceSeconds, reactivation, ...others } = values;
  return {
    ...others,
    offlineGraceSeconds: Number(offlineGraceSeconds),
    status: status === 'on' ? 1 : 0,
    reactivation: reactivation === byDefault ? null : reactivation,
    // Its lists offer what the interface knows, and nothing else.
  } as ProductBody;
}
