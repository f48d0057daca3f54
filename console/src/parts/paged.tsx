// A paged list on a screen: what is wrong with it, that it is empty, its items, and the button for more.
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { describeError } from '../errors.ts';
import { PagedList, type Page, type PageQuery } from '../state/paged-list.ts';
import { texts } from '../texts.ts';
import { Action, Problem } from './form.tsx';

type Props<Item> = {
  list: PagedList<Item>;
  empty: ComponentChildren;
  kind?: 'plain' | 'cards';
  children: (item: Item) => ComponentChildren;
};

/** The list of a component, which is read when it is first shown. */
export function usePagedList<Item>(
  read: (query: PageQuery) => Promise<Page<Item>>,
  keyOf: (item: Item) => string,
): PagedList<Item> {
  return useMemo(() => new PagedList(read, keyOf), []);
}

export function Paged<Item>({ list, empty, kind = 'plain', children }: Props<Item>) {
  const items = list.items.value;
  const error = list.error.value;
  return (
    <>
      {error !== null && (
        <>
          <Problem text={describeError(error)} />
          <Action label={texts.retry} onPress={() => list.reload()} />
        </>
      )}
      {items === null && error === null && <p>{texts.loading}</p>}
      {items?.length === 0 && empty}
      {items !== null && items.length > 0 && <ul class={kind}>{items.map(children)}</ul>}
      {list.hasMore && items !== null && <Action label={texts.more} onPress={() => list.readMore()} />}
    </>
  );
}
