// A paged list on a screen: what is wrong with it, that it is empty, its items, and the button for more.
import type { ComponentChildren } from 'preact';
import { describeError } from '../errors.ts';
import type { PagedList } from '../state/paged-list.ts';
import { texts } from '../texts.ts';
import { Action, Problem } from './form.tsx';

type Props<Item> = {
  list: PagedList<Item>;
  empty: ComponentChildren;
  kind?: 'plain' | 'cards';
  children: (item: Item) => ComponentChildren;
};

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
