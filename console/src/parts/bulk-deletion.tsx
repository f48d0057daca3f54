// Deleting many devices of a product: which, a plain warning, and progress, slice by slice as the service does it.
import { dataOf } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { session } from '../state/session.ts';
import { productsTexts } from '../texts/products.ts';
import { Dialog } from './dialog.tsx';
import { Form, Select } from './form.tsx';
import { InputError } from '../errors.ts';

const words = productsTexts.bulkDeletion;
type Which = keyof typeof words.which;
type Props = { productKey: string; onClose: () => void; onChange: () => Promise<void> };

export function BulkDeletion({ productKey, onClose, onChange }: Props) {
  const progress = useSignal('');
  const remove = async (which: Which): Promise<void> => {
    const before = new Date().toISOString();
    const query = which === 'all' ? { createdBefore: before } : { status: which, createdBefore: before };
    const api = session().api.products[':productKey'].devices;
    let deleted = 0;
    try {
      for (;;) {
        const slice = await dataOf(api.$delete({ param: { productKey }, query }));
        deleted += slice.deleted;
        progress.value = words.progress(deleted, slice.remaining);
        if (slice.remaining === 0) return;
        if (slice.deleted === 0) throw new InputError(words.stuck(slice.remaining));
      }
    } finally {
      if (deleted > 0) await onChange();
    }
  };
  return (
    <Dialog title={words.title} onClose={onClose}>
      <p>{words.warning}</p>
      <Form submit={words.confirm} danger done={words.done} onSubmit={({ which }) => remove(which as Which)}>
        <Select label={words.label} name="which" value="inactive" options={Object.entries(words.which)} />
        <p role="status">{progress.value}</p>
      </Form>
    </Dialog>
  );
}
