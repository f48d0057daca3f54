// All devices, live: as a board of tiles, or as a table.
import { dataOf } from '@latchwork/client';
import { effect, signal, useComputed, useSignal, useSignalEffect, type Signal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { Board } from '../board/board.tsx';
import { describeError } from '../errors.ts';
import { Action, Problem, Search, Select } from '../parts/form.tsx';
import { later } from '../parts/later.tsx';
import { Offers } from '../parts/offers.tsx';
import { useRead } from '../parts/read.ts';
import { Title } from '../parts/title.tsx';
import { goTo, hrefOf } from '../router.ts';
import { DeviceList, type Filter } from '../state/device-list.ts';
import { isSignedIn, session } from '../state/session.ts';
import { texts } from '../texts.ts';

const Table = later(async () => (await import('../board/table.tsx')).Table);

const words = texts.devices;

const viewKey = 'latchwork.devicesView';
/** Remembered on this machine. */
const devicesView = signal<keyof typeof words.views>(localStorage.getItem(viewKey) === 'table' ? 'table' : 'board');

/** Outside of the screen: a user who comes back from a device finds the list as it was left. */
const noFilter: Filter = { search: '', tag: '', productKey: '', status: '', role: '' };
const filter = signal(noFilter);
effect(() => {
  if (!isSignedIn.value) filter.value = noFilter;
});

export function Devices() {
  const query = { page: '1', size: '100' };
  const { value: products, problem } = useRead(() => dataOf(session().api.products.$get({ query })));
  const productOptions = products.value?.list.map(({ productKey: key, name }) => [key, name] as const) ?? [];
  const version = useSignal(0);
  /** Nothing to filter. */
  const isBare = useSignal(false);
  const { search, tag, productKey, status, role } = filter.value;
  const change = (changed: Partial<Filter>) => (filter.value = { ...filter.value, ...changed });
  return (
    <main id="content">
      <Title>{words.title}</Title>
      <Offers onAccept={() => (version.value += 1)} />
      {!isBare.value && (
        <div class="filters">
          <Search
            label={words.search}
            hint={words.searchHint}
            value={search}
            onChange={(text) => change({ search: text, tag: '' })}
          />
          <Search
            label={words.filterTag}
            hint={words.tagHint}
            value={tag}
            onChange={(text) => change({ tag: text, search: '' })}
          />
          <Select
            label={words.filterProduct}
            name="product"
            value={productKey}
            options={[['', words.allProducts], ...productOptions]}
            onChange={(value) => change({ productKey: value })}
          />
          <Select
            label={words.filterStatus}
            name="status"
            value={status}
            options={[['', words.allStates], ...Object.entries(texts.status)]}
            onChange={(value) => change({ status: value })}
          />
          <Select
            label={words.filterRole}
            name="role"
            value={role}
            options={Object.entries(words.roles)}
            onChange={(value) => change({ role: value as Filter['role'] })}
          />
        </div>
      )}
      <Problem text={problem} />
      <List key={JSON.stringify([filter.value, version.value])} isBare={isBare} />
    </main>
  );
}

function List({ isBare }: { isBare: Signal<boolean> }) {
  const list = useMemo(() => new DeviceList(filter.peek()), []);
  useEffect(() => () => list.end(), []);
  const problem = useComputed(() => (list.error.value === null ? '' : describeError(list.error.value)));
  const announced = useSignal('');
  useSignalEffect(() => {
    isBare.value = list.total.value === 0 && Object.values(filter.peek()).every((value) => value === '');
    announced.value = list.total.value === null ? words.loading : words.total(list.total.value);
  });
  if (list.total.value === 0) return <Empty />;
  return (
    <>
      <div class="bar">
        <p aria-live="polite">{announced}</p>
        <Views />
        <Ways />
      </div>
      <Problem text={problem.value} />
      {list.isCut.value && <p class="notice">{words.isCut}</p>}
      {devicesView.value === 'board' ? <Board list={list} /> : <Table list={list} />}
    </>
  );
}

function Views() {
  return (
    <div class="segments views" role="group" aria-label={words.view}>
      {(['board', 'table'] as const).map((view) => (
        <button
          key={view}
          type="button"
          aria-pressed={view === devicesView.value}
          onClick={() => {
            devicesView.value = view;
            localStorage.setItem(viewKey, view);
          }}
        >
          {words.views[view]}
        </button>
      ))}
    </div>
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
      onPress={async () => {
        // Loaded with its first use, like the screen of the device.
        const { addSwitch } = await import('../state/switches.ts');
        goTo({ screen: 'device', deviceId: await addSwitch() });
      }}
    />
  );
}

function Empty() {
  if (Object.values(filter.value).some((value) => value !== '')) {
    return (
      <section class="empty">
        <p>{filter.value.search === '' ? words.noneFound : words.noneBegins(filter.value.search)}</p>
        <button type="button" onClick={() => (filter.value = noFilter)}>
          {words.showAll}
        </button>
      </section>
    );
  }
  return (
    <section class="empty">
      <img src="icon.svg" alt="" width="72" height="72" />
      <h2>{words.none}</h2>
      <p>{words.noneHint}</p>
      <Ways />
      <p class="hint">{words.addHint}</p>
    </section>
  );
}
