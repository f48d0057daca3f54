// One product: its figures, what it is, its serial numbers; or the form for a new one.
import { dataOf } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { AskFirst } from '../parts/dialog.tsx';
import { Problem } from '../parts/form.tsx';
import { ProductFigures } from '../parts/product-figures.tsx';
import { ProductForm } from '../parts/product-form.tsx';
import { useRead } from '../parts/read.ts';
import { Title } from '../parts/title.tsx';
import { goTo, hrefOf } from '../router.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { productsTexts } from '../texts/products.ts';
import { ProductSerials } from './product-serials.tsx';
import type { Product } from './products.tsx';

const words = productsTexts.products;

export function ProductScreen({ productKey }: { productKey: string | null }) {
  return (
    <main id="content" class={productKey === null ? 'narrow' : undefined}>
      <p class="back">
        <a href={hrefOf({ screen: 'products' })}>← {words.back}</a>
      </p>
      {productKey === null ? <NewProduct /> : <ExistingProduct productKey={productKey} />}
    </main>
  );
}

function NewProduct() {
  return (
    <>
      <Title>{words.create}</Title>
      <ProductForm
        product={null}
        onSave={async (json) => {
          const { productKey } = await dataOf(session().api.products.$post({ json }));
          goTo({ screen: 'product', productKey });
        }}
      />
    </>
  );
}

function ExistingProduct({ productKey }: { productKey: string }) {
  const version = useSignal(0);
  const param = { productKey: encodeURIComponent(productKey) };
  const { value: product, problem } = useRead<Product>(
    () => dataOf(session().api.products[':productKey'].$get({ param })),
    words.explain,
  );
  const found = product.value;
  if (found === null) return problem === '' ? <p>{texts.loading}</p> : <Problem text={problem} />;
  return (
    <>
      <Title>{found.name}</Title>
      <p class="hint">
        <code>{productKey}</code> · {words.modes[found.controlMode]}
        {found.status === 0 && ` · ${words.isClosed}`}
      </p>
      <section class="card" aria-label={words.figures.title}>
        <ProductFigures productKey={productKey} version={version.value} />
      </section>
      <ProductSerials productKey={productKey} onChange={() => (version.value += 1)} />
      <section class="card">
        <h2>{words.edit}</h2>
        <ProductForm
          product={found}
          onSave={async (json) => {
            product.value = await dataOf(session().api.products[':productKey'].$put({ param: { productKey }, json }));
          }}
        />
        <AskFirst
          label={words.remove}
          kind="danger"
          warning={words.removeWarning(found.name)}
          confirm={words.removeConfirm}
          onConfirm={async () => {
            await dataOf(session().api.products[':productKey'].$delete({ param: { productKey } }));
            goTo({ screen: 'products' });
          }}
        />
      </section>
    </>
  );
}
