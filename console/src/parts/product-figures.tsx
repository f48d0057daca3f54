// How many devices a product has, as the service counts them when the figures come onto the screen.
import { dataOf } from '@latchwork/client';
import { session } from '../state/session.ts';
import { productsTexts } from '../texts/products.ts';
import { Problem } from './form.tsx';
import { useRead } from './read.ts';

const words = productsTexts.products.figures;
const shown = ['devices', 'online', 'claimed', 'activatedToday'] as const;

/** @param version another one has them counted again */
export function ProductFigures({ productKey, version = 0 }: { productKey: string; version?: number }) {
  const read = () => dataOf(session().api.products[':productKey'].figures.$get({ param: { productKey } }));
  const { value: figures, problem } = useRead(read, {}, version);
  return (
    <>
      <dl class="figures">
        {shown.map((name) => (
          <div key={name}>
            <dt>{words[name]}</dt>
            <dd>{figures.value === null ? '–' : figures.value[name].toLocaleString('en')}</dd>
          </div>
        ))}
      </dl>
      <Problem text={problem} />
    </>
  );
}
