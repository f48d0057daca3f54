// The catalogue: list, create, edit.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { describeError } from '../errors.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Action, Field, Form, Problem, Select } from '../parts/form.tsx';
import { goTo, hrefOf } from '../router.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';

const words = texts.products;
const pageSize = 50;
type Product = Data<Client['products']['$get']>['list'][number];

export function Products() {
  const list = useSignal<readonly Product[] | null>(null);
  const total = useSignal(0);
  const problem = useSignal('');
  const read = async (): Promise<void> => {
    const known = list.value ?? [];
    const query = { page: String(Math.floor(known.length / pageSize) + 1), size: String(pageSize) } as never;
    const page = await dataOf(session().api.products.$get({ query }));
    list.value = [...known, ...page.list];
    total.value = page.total;
  };
  useEffect(() => {
    read().catch((error: unknown) => (problem.value = describeError(error)));
  }, []);
  return (
    <main id="content">
      <h1>{words.title}</h1>
      <a class="button primary" href={hrefOf({ screen: 'product', productKey: null })}>
        {words.create}
      </a>
      <Problem text={problem.value} />
      {list.value === null && problem.value === '' && <p>{texts.loading}</p>}
      {list.value?.length === 0 && (
        <section class="empty">
          <h2>{words.none}</h2>
          <p>{words.noneHint}</p>
        </section>
      )}
      <ul class="cards">
        {list.value?.map((product) => (
          <li key={product.productKey} class="card">
            <h2>
              <svg width="16" height="16" aria-hidden="true">
                <circle cx="8" cy="8" r="8" fill={product.iconColor} />
              </svg>{' '}
              <a href={hrefOf({ screen: 'product', productKey: product.productKey })}>{product.name}</a>
            </h2>
            <p class="hint">
              <code>{product.productKey}</code> · {words.modes[product.controlMode]}
            </p>
            <p>{product.description}</p>
          </li>
        ))}
      </ul>
      {list.value !== null && list.value.length < total.value && <Action label={words.more} onPress={read} />}
    </main>
  );
}

export function ProductScreen({ productKey }: { productKey: string | null }) {
  const product = useSignal<Product | null>(null);
  const problem = useSignal('');
  useEffect(() => {
    if (productKey === null) return;
    dataOf(session().api.products[':productKey'].$get({ param: { productKey } })).then(
      (found) => (product.value = found),
      (error: unknown) => (problem.value = describeError(error)),
    );
  }, []);
  const isReady = productKey === null || product.value !== null;
  return (
    <main id="content" class="narrow">
      <h1>{productKey === null ? words.create : (product.value?.name ?? words.edit)}</h1>
      <Problem text={problem.value} />
      {isReady && <ProductForm product={product.value} />}
      {product.value !== null && <Removal product={product.value} />}
    </main>
  );
}

function ProductForm({ product }: { product: Product | null }) {
  const save = async (values: Record<string, string>): Promise<void> => {
    const { productKey = '', offlineGraceSeconds, status, ...rest } = values;
    const json = {
      ...rest,
      offlineGraceSeconds: Number(offlineGraceSeconds),
      status: status === 'on' ? 1 : 0,
    } as never;
    const { products } = session().api;
    if (product === null) await dataOf(products.$post({ json: { productKey, ...(json as object) } as never }));
    else await dataOf(products[':productKey'].$put({ param: { productKey: product.productKey }, json }));
    goTo({ screen: 'products' });
  };
  return (
    <Form submit={words.save} onSubmit={save}>
      {product === null && <Field label={words.key} hint={words.keyHint} name="productKey" required maxLength={64} />}
      <Field label={words.name} name="name" value={product?.name ?? ''} required maxLength={100} />
      <Field label={words.description} name="description" value={product?.description ?? ''} maxLength={1000} />
      <Field label={words.category} name="category" value={product?.category ?? 'general'} required maxLength={100} />
      <Select
        label={words.controlMode}
        name="controlMode"
        value={product?.controlMode ?? 'toggle'}
        options={Object.entries(words.modes)}
      />
      <Field label={words.iconColor} name="iconColor" type="color" value={product?.iconColor ?? '#2196f3'} />
      <Field label={words.manufacturer} name="manufacturer" value={product?.manufacturer ?? ''} maxLength={100} />
      <Field label={words.model} name="model" value={product?.model ?? ''} maxLength={100} />
      <Field
        label={words.grace}
        name="offlineGraceSeconds"
        type="number"
        min={0}
        max={60}
        value={String(product?.offlineGraceSeconds ?? 5)}
      />
      <label class="check">
        <input type="checkbox" name="status" defaultChecked={product?.status !== 0} /> {words.enabled}
      </label>
    </Form>
  );
}

function Removal({ product }: { product: Product }) {
  const isOpen = useSignal(false);
  return (
    <>
      <button type="button" class="danger" onClick={() => (isOpen.value = true)}>
        {words.remove}
      </button>
      {isOpen.value && (
        <Dialog title={words.remove} onClose={() => (isOpen.value = false)}>
          <p>{words.removeWarning(product.name)}</p>
          <Action
            label={words.remove}
            kind="danger"
            onPress={async () => {
              const { productKey } = product;
              await dataOf(session().api.products[':productKey'].$delete({ param: { productKey } }));
              goTo({ screen: 'products' });
            }}
          />
        </Dialog>
      )}
    </>
  );
}
