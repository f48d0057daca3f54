// The firmware of a product, for its maker: the keys that sign it, what was signed, and the campaigns that bring it to devices.
import { dataOf } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { Problem } from '../parts/form.tsx';
import { useRead } from '../parts/read.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { Campaigns } from './campaigns.tsx';
import { Images } from './images.tsx';
import { Keys } from './keys.tsx';

export function ProductFirmware({ productKey }: { productKey: string }) {
  const version = useSignal(0);
  const api = session().api.products[':productKey'].firmware;
  const { value, problem } = useRead(() => dataOf(api.$get({ param: { productKey } })), {}, version.value);
  const list = value.value?.list;
  if (list === undefined) return problem === '' ? <p>{texts.loading}</p> : <Problem text={problem} />;
  return (
    <div class="columns even">
      <div>
        <Campaigns productKey={productKey} images={list} />
        <Images productKey={productKey} images={list} onChange={() => (version.value += 1)} />
      </div>
      <Keys productKey={productKey} />
    </div>
  );
}
