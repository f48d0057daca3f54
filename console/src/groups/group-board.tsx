// All groups, live, each with its counts and the buttons that press all of its devices.
import { dataOf, type ControlBody } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { describeError } from '../errors.ts';
import { Control } from '../parts/control.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Problem, useAction } from '../parts/form.tsx';
import { Paged, usePagedList } from '../parts/paged.tsx';
import { useRead } from '../parts/read.ts';
import { goTo, hrefOf } from '../router.ts';
import { readDevices, type ListedDevice } from '../state/device-names.ts';
import type { Mode } from '../state/fixed-commands.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { groupsTexts as words } from '../texts/groups.ts';
import { GroupForm } from './group-form.tsx';
import { GroupView, type Counts, type Group, type Member } from './group-view.ts';

export function GroupBoard() {
  const { value: devices } = useRead(readDevices);
  const isOpen = useSignal(false);
  const list = usePagedList(
    (query) => dataOf(session().api.groups.$get({ query })),
    ({ groupId }) => groupId,
  );
  return (
    <>
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
        {(group) => <Card key={group.groupId} group={group} devices={devices.value ?? []} />}
      </Paged>
      <p class="actions">
        <button type="button" class="primary" onClick={() => (isOpen.value = true)}>
          {words.make}
        </button>
      </p>
      {isOpen.value && (
        <Dialog title={words.make} onClose={() => (isOpen.value = false)}>
          <GroupForm
            group={null}
            onSave={async (json) => {
              const { groupId } = await dataOf(session().api.groups.$post({ json }));
              goTo({ screen: 'groups', id: groupId });
            }}
          />
        </Dialog>
      )}
    </>
  );
}

function Card({ group, devices }: { group: Group; devices: readonly ListedDevice[] }) {
  const view = useGroup(group.groupId);
  const state = view.state.value;
  const error = view.error.value;
  return (
    <li class="card">
      <h2>
        <a href={hrefOf({ screen: 'groups', id: group.groupId })}>{group.name}</a>
      </h2>
      <p class="hint">{kindOf(group)}</p>
      <Problem text={error === null ? '' : describeError(error, words.explain)} />
      {state === null ? error === null && <p>{texts.loading}</p> : <CountTags counts={view.counts.value} />}
      <GroupControl group={group} mode={modeOf(state?.devices ?? [], devices) ?? 'toggle'} />
    </li>
  );
}

export function useGroup(groupId: string): GroupView {
  const view = useMemo(() => new GroupView(groupId), []);
  useEffect(() => () => view.end(), []);
  return view;
}

export function kindOf({ tag, productKey, deviceIds }: Group): string {
  return tag === null ? words.ofDevices(deviceIds?.length ?? 0) : words.ofTag(tag, productKey);
}

export function CountTags({ counts }: { counts: Counts }) {
  const kinds = (Object.keys(counts) as (keyof Counts)[]).filter((kind) => counts[kind] > 0);
  return (
    <p class="actions" aria-live="polite">
      {kinds.map((kind) => (
        <span key={kind} class="tag">
          {counts[kind].toLocaleString('en')} {words.counts[kind]}
        </span>
      ))}
    </p>
  );
}

/** What all of its products are pressed by; null if they differ. */
export function modeOf(members: readonly Member[], devices: readonly ListedDevice[]): Mode | null {
  const ids = new Set(members.map(({ deviceId }) => deviceId));
  const modes = new Set(devices.flatMap(({ deviceId, product }) => (ids.has(deviceId) ? [product.controlMode] : [])));
  return modes.size === 1 ? ([...modes][0] ?? null) : null;
}

/** A group has no state of its own, so no button looks pressed. What became of it is on the page of the group. */
export function GroupControl({ group, mode }: { group: Group; mode: Mode }) {
  const { isBusy, error, run } = useAction();
  const press = async (command: ControlBody): Promise<void> => {
    const { bulkId } = await dataOf(session().api.commands.$post({ json: { groupId: group.groupId, command } }));
    goTo({ screen: 'groups', id: group.groupId, bulkId });
  };
  return (
    <>
      <div role="group" aria-label={group.name} aria-busy={isBusy}>
        <Control
          mode={mode}
          reported={null}
          asked={null}
          disabledBecause=""
          onPress={(body) => run(() => press(body))}
        />
      </div>
      <Problem text={error} />
    </>
  );
}
