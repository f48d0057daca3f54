// One product: its figures, what it is, its serial numbers, and in another tab its firmware; or the form for a new one.
import { dataOf } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { AskFirst } from '../parts/dialog.tsx';
import { Problem } from '../parts/form.tsx';
import { ProductFigures } from '../parts/product-figures.tsx';
import { ProductForm } from '../parts/product-form.tsx';
import { later } from '../parts/later.tsx';
import { useRead } from '../parts/read.ts';
import { Tabs } from '../parts/tabs.tsx';
import { Title } from '../parts/title.tsx';
import { goTo, hrefOf, productTabs, type ProductTab } from '../router.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { productsTexts } from '../texts/products.ts';
import { ProductSerials } from './product-serials.tsx';
import type { Product } from './products.tsx';

const ProductFirmware = later(async () => (await import('../firmware/product-firmware.tsx')).ProductFirmware);

const words = productsTexts.products;

export function ProductScreen({ productKey, tab }: { productKey: string | null; tab: ProductTab }) {
  return (
    <main id="content" class={productKey === null ? 'narrow' : undefined}>
      <p class="back">
        <a href={hrefOf({ screen: 'products' })}>← {words.back}</a>
      </p>
      {productKey === null ? <NewProduct /> : <ExistingProduct productKey={productKey} tab={tab} />}
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

function ExistingProduct({ productKey, tab }: { productKey: string; tab: ProductTab }) {
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
      <Tabs
        label={words.parts}
        tabs={productTabs.map((name) => ({
          tab: name,
          text: words.tabs[name],
          href: hrefOf({ screen: 'product', productKey, tab: name }),
        }))}
        open={tab}
      >
        {tab === 'overview' ? (
          <Overview product={found} onSave={(saved) => (product.value = saved)} />
        ) : (
          <ProductFirmware productKey={productKey} />
        )}
      </Tabs>
    </>
  );
}

function Overview({ product, onSave }: { product: Product; onSave: (saved: Product) => void }) {
  const { productKey } = product;
  const version = useSignal(0);
  return (
    <>
      <section class="card" aria-label={words.figures.title}>
        <ProductFigures productKey={productKey} version={version.value} />
      </section>
      <ProductSerials productKey={productKey} onChange={() => (version.value += 1)} />
      <section class="card">
        <h2>{words.edit}</h2>
        <ProductForm
          product={product}
          onSave={async (json) => {
            onSave(await dataOf(session().api.products[':productKey'].$put({ param: { productKey }, json })));
          }}
        />
        <AskFirst
          label={words.remove}
          kind="danger"
          warning={words.removeWarning(product.name)}
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
