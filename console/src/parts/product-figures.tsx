// How many devices a product has, as the service counts them when the figures come onto the screen.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { describeError } from '../errors.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { Problem } from './form.tsx';

const words = texts.products.figures;
type Figures = Data<Client['products'][':productKey']['figures']['$get']>;
const shown = ['devices', 'online', 'claimed', 'activatedToday'] as const;

/** @param version another one has them counted again */
export function ProductFigures({ productKey, version = 0 }: { productKey: string; version?: number }) {
  const figures = useSignal<Figures | null>(null);
  const problem = useSignal('');
  useEffect(() => {
    dataOf(session().api.products[':productKey'].figures.$get({ param: { productKey } })).then(
      (counted) => (figures.value = counted),
      (error: unknown) => (problem.value = describeError(error)),
    );
  }, [version]);
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
      <Problem text={problem.value} />
    </>
  );
}
