// The catalogue: every product with its figures.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { Paged, usePagedList } from '../parts/paged.tsx';
import { ProductFigures } from '../parts/product-figures.tsx';
import { Title } from '../parts/title.tsx';
import { hrefOf } from '../router.ts';
import { session } from '../state/session.ts';
import { productsTexts } from '../texts/products.ts';

const words = productsTexts.products;
export type Product = Data<Client['products']['$get']>['list'][number];

export function Products() {
  const list = usePagedList(
    (query) => dataOf(session().api.products.$get({ query })),
    ({ productKey }) => productKey,
  );
  return (
    <main id="content">
      <div class="bar">
        <Title>{words.title}</Title>
        <a class="button primary" href={hrefOf({ screen: 'product', productKey: null })}>
          {words.create}
        </a>
      </div>
      <Paged
        list={list}
        kind="cards"
        empty={
          <section class="empty">
            <h2>{words.none}</h2>
            <p>{words.noneHint}</p>
          </section>
        }
      >
        {(product) => <Card key={product.productKey} product={product} />}
      </Paged>
    </main>
  );
}

function Card({ product }: { product: Product }) {
  const { productKey, name, description, controlMode, iconColor, status } = product;
  return (
    <li class="card">
      <h2 class="with-icon">
        <svg width="16" height="16" aria-hidden="true">
          <circle cx="8" cy="8" r="7.5" fill={iconColor} class="swatch" />
        </svg>
        <a href={hrefOf({ screen: 'product', productKey })}>{name}</a>
      </h2>
      <p class="hint">
        <code>{productKey}</code> · {words.modes[controlMode]}
        {status === 0 && ` · ${words.isClosed}`}
      </p>
      {description !== '' && <p>{description}</p>}
      <ProductFigures productKey={productKey} />
    </li>
  );
}
