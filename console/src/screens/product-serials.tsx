// The serial numbers of a product: all of them, their import, and what a product's owner may do with devices that somebody
// else has claimed.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { BulkDeletion } from '../parts/bulk-deletion.tsx';
import { AskFirst, Dialog } from '../parts/dialog.tsx';
import { Action } from '../parts/form.tsx';
import { Paged, usePagedList } from '../parts/paged.tsx';
import { SerialImportForm } from '../parts/serial-import-form.tsx';
import { hrefOf } from '../router.ts';
import { ago } from '../state/clock.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { managingTexts } from '../texts/managing.ts';
import { productsTexts } from '../texts/products.ts';

const words = productsTexts.serials;
type Serial = Data<Client['products'][':productKey']['serials']['$get']>['list'][number];

/** @param onChange called after devices were added, removed, enabled or disabled */
export function ProductSerials({ productKey, onChange }: { productKey: string; onChange: () => void }) {
  const api = session().api.products[':productKey'].serials;
  const list = usePagedList(
    (query) => dataOf(api.$get({ param: { productKey }, query })),
    ({ deviceId }) => deviceId,
  );
  const open = useSignal<'none' | 'import' | 'deletion'>('none');
  const close = () => (open.value = 'none');
  const changed = async (): Promise<void> => {
    onChange();
    await list.reload();
  };
  return (
    <section class="card" aria-label={words.title}>
      <div class="bar">
        <h2>
          {words.title} <small>{list.items.value !== null && list.total.value.toLocaleString('en')}</small>
        </h2>
        <div class="actions">
          <button type="button" class="primary" onClick={() => (open.value = 'import')}>
            {words.import}
          </button>
          {list.total.value > 0 && (
            <button type="button" onClick={() => (open.value = 'deletion')}>
              {productsTexts.bulkDeletion.title}
            </button>
          )}
        </div>
      </div>
      <p class="hint">{words.hint}</p>
      {open.value === 'deletion' && <BulkDeletion productKey={productKey} onClose={close} onChange={changed} />}
      {open.value === 'import' && (
        <Dialog title={words.import} onClose={close}>
          <SerialImportForm productKey={productKey} onChange={changed} />
        </Dialog>
      )}
      <Paged list={list} empty={<p>{words.none}</p>}>
        {(serial) => <Row key={serial.deviceId} productKey={productKey} serial={serial} onChange={changed} />}
      </Paged>
    </section>
  );
}

type RowProps = { productKey: string; serial: Serial; onChange: () => Promise<void> };

function Row({ productKey, serial, onChange }: RowProps) {
  const { deviceSN, deviceId, activatedAt, isClaimed, hasClaimCode, isDisabled } = serial;
  return (
    <li class="item">
      <div>
        <strong>{deviceSN}</strong>
        <p class="hint">
          {activatedAt === null ? words.waiting : words.activated(ago(Date.parse(activatedAt)))}
          {isClaimed && ` · ${words.claimed}`}
          {hasClaimCode && ` · ${words.hasClaimCode}`}
          {isDisabled && ` · ${texts.status.disabled}`}
        </p>
      </div>
      <div class="actions">
        {!isClaimed && <a href={hrefOf({ screen: 'device', deviceId })}>{words.open}</a>}
        {activatedAt === null && <RemoveSerial productKey={productKey} deviceSN={deviceSN} onChange={onChange} />}
        {isClaimed && <KeepOut serial={serial} onChange={onChange} />}
        {isClaimed && <UndoClaim serial={serial} onChange={onChange} />}
      </div>
    </li>
  );
}

function RemoveSerial({ productKey, deviceSN, onChange }: Omit<RowProps, 'serial'> & { deviceSN: string }) {
  return (
    <Action
      label={words.remove}
      name={words.removeOf(deviceSN)}
      onPress={async () => {
        // Serial numbers may have any printable character.
        const param = { productKey, deviceSN: encodeURIComponent(deviceSN) };
        await dataOf(session().api.products[':productKey'].serials[':deviceSN'].$delete({ param }));
        await onChange();
      }}
    />
  );
}

/** For a device that somebody claimed whose it was not. */
function UndoClaim({ serial: { deviceId, deviceSN }, onChange }: Omit<RowProps, 'productKey'>) {
  return (
    <AskFirst
      label={words.undoClaim}
      name={words.undoClaimOf(deviceSN)}
      warning={words.undoClaimWarning}
      confirm={words.undoClaim}
      onConfirm={async () => {
        await dataOf(session().api.devices[':deviceId'].claim.$delete({ param: { deviceId } }));
        await onChange();
      }}
    />
  );
}

/** Of a device that belongs to somebody else, all that is left to the product's owner. */
function KeepOut({ serial, onChange }: Omit<RowProps, 'productKey'>) {
  const { deviceId, deviceSN, isDisabled } = serial;
  const change = async (): Promise<void> => {
    const json = { disabled: !isDisabled };
    await dataOf(session().api.devices[':deviceId'].$patch({ param: { deviceId }, json }));
    await onChange();
  };
  if (isDisabled) return <Action label={managingTexts.enable} name={words.enableOf(deviceSN)} onPress={change} />;
  return (
    <AskFirst
      label={managingTexts.disable}
      name={words.disableOf(deviceSN)}
      warning={words.disableWarning}
      confirm={managingTexts.disable}
      onConfirm={change}
    />
  );
}
