// All devices, live.
import { dataOf } from '@latchwork/client';
import { useComputed, useSignal, useSignalEffect, type Signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { describeError } from '../errors.ts';
import { Action, Problem, Select } from '../parts/form.tsx';
import { Offers } from '../parts/offers.tsx';
import { PositionText, Status } from '../parts/status.tsx';
import { Window } from '../parts/window.tsx';
import { goTo, hrefOf } from '../router.ts';
import { ago } from '../state/clock.ts';
import { DeviceList, type Row } from '../state/device-list.ts';
import { session } from '../state/session.ts';
import { addSwitch } from '../state/switches.ts';
import { texts } from '../texts.ts';

const words = texts.devices;

export function Devices() {
  const productKey = useSignal('');
  const status = useSignal('');
  const products = useSignal<readonly (readonly [string, string])[]>([]);
  const problem = useSignal('');
  const version = useSignal(0);
  useEffect(() => {
    const query = { page: '1', size: '100' } as never;
    dataOf(session().api.products.$get({ query })).then(
      ({ list }) => (products.value = list.map(({ productKey: key, name }) => [key, name] as const)),
      (error: unknown) => (problem.value = describeError(error)),
    );
  }, []);
  const filter = { productKey: productKey.value, status: status.value };
  return (
    <main id="content">
      <h1>{words.title}</h1>
      <div class="filters">
        <Select
          label={words.filterProduct}
          name="product"
          value={productKey.value}
          options={[['', words.allProducts], ...products.value]}
          onChange={(value) => (productKey.value = value)}
        />
        <Select
          label={words.filterStatus}
          name="status"
          value={status.value}
          options={[['', words.allStates], ...Object.entries(texts.status)]}
          onChange={(value) => (status.value = value)}
        />
      </div>
      <Problem text={problem.value} />
      <Offers onAccept={() => (version.value += 1)} />
      <List key={JSON.stringify([filter, version.value])} filter={filter} />
    </main>
  );
}

function List({ filter }: { filter: { productKey: string; status: string } }) {
  const list = useMemo(() => new DeviceList(filter), []);
  useEffect(() => () => list.end(), []);
  const problem = useComputed(() => (list.error.value === null ? '' : describeError(list.error.value)));
  const announced = useSignal('');
  useSignalEffect(() => {
    announced.value = list.total.value === null ? words.loading : words.total(list.total.value);
  });
  if (list.total.value === 0) return <Empty isFiltered={filter.productKey !== '' || filter.status !== ''} />;
  const rows = list.rows.value;
  return (
    <>
      <div class="bar">
        <p aria-live="polite">{announced}</p>
        <Ways />
      </div>
      <Problem text={problem.value} />
      <div role="table" aria-label={words.title} aria-rowcount={(list.total.value ?? 0) + 1} class="devices">
        <div role="rowgroup">
          <div role="row" aria-rowindex={1} class="row head">
            <span role="columnheader">{words.columnName}</span>
            <span role="columnheader">{words.columnStatus}</span>
            <span role="columnheader">{words.columnPosition}</span>
            <span role="columnheader">{words.columnSince}</span>
            <span role="columnheader">{words.columnReport}</span>
          </div>
        </div>
        <Window
          count={rows.length}
          row={(index) => <Cells row={rows[index] as Signal<Row>} />}
          onView={(from, to) => {
            list.show(rows.slice(from, to).map(({ value }) => value.device.deviceId));
            if (to >= rows.length - 20) list.readMore();
          }}
        />
      </div>
    </>
  );
}

function Cells({ row }: { row: Signal<Row> }) {
  const { device, status, position, sinceMs, reportedAtMs } = row.value;
  return (
    <>
      <span role="cell">
        <a href={hrefOf({ screen: 'device', deviceId: device.deviceId })}>{device.name}</a>
        <small>
          {device.product.name}
          {isShared(device.role) && ` · ${words.shared(texts.sharing.roles[device.role].toLowerCase())}`}
        </small>
      </span>
      <span role="cell">
        <Status status={status} />
      </span>
      <span role="cell">
        <PositionText position={position} />
      </span>
      <span role="cell">{sinceMs === null ? words.never : ago(sinceMs)}</span>
      <span role="cell">{reportedAtMs === null ? '–' : ago(reportedAtMs)}</span>
    </>
  );
}

function Ways() {
  return (
    <div class="ways">
      <MakeSwitch />
      <a class="button" href={hrefOf({ screen: 'add' })}>
        {words.add}
      </a>
    </div>
  );
}

function MakeSwitch() {
  return (
    <Action
      label={words.makeSwitch}
      kind="primary"
      onPress={async () => goTo({ screen: 'device', deviceId: await addSwitch() })}
    />
  );
}

function Empty({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) return <p>{words.noneFound}</p>;
  return (
    <section class="empty">
      <h2>{words.none}</h2>
      <p>{words.noneHint}</p>
      <Ways />
      <p class="hint">{words.addHint}</p>
    </section>
  );
}

function isShared(role: Row['device']['role']): role is 'operator' | 'viewer' {
  return role === 'operator' || role === 'viewer';
}
