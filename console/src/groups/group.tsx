// One group: pressed at once, what became of each device, and what is true of them now.
import { dataOf } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { describeError } from '../errors.ts';
import { AskFirst, Dialog } from '../parts/dialog.tsx';
import { Problem } from '../parts/form.tsx';
import { PositionText, Status } from '../parts/status.tsx';
import { useRead } from '../parts/read.ts';
import { Title } from '../parts/title.tsx';
import { goTo, hrefOf } from '../router.ts';
import { readDevices } from '../state/device-names.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { groupsTexts as words } from '../texts/groups.ts';
import { CountTags, GroupControl, kindOf, modeOf, useGroup } from './group-board.tsx';
import { GroupForm } from './group-form.tsx';
import type { GroupView, Member } from './group-view.ts';
import { reasonWords, RunPart } from './run.tsx';

export function GroupScreen({ groupId, bulkId }: { groupId: string; bulkId: string | undefined }) {
  const view = useGroup(groupId);
  const { value: devices } = useRead(readDevices);
  const error = view.error.value;
  const group = view.state.value;
  if (group === null) {
    return error === null ? <p>{texts.loading}</p> : <Problem text={describeError(error, words.explain)} />;
  }
  return (
    <>
      <div class="bar">
        <Title>{group.name}</Title>
        <Management view={view} />
      </div>
      <p class="hint">{kindOf(group)}</p>
      <Problem text={error === null ? '' : describeError(error, words.explain)} />
      <div class="columns even">
        <section class="card" aria-label={words.control}>
          <h2>{words.control}</h2>
          {devices.value !== null && (
            <GroupControl group={group} mode={modeOf(group.devices, devices.value) ?? 'generic'} />
          )}
        </section>
        <section class="card" aria-label={words.devices}>
          <h2>{words.devices}</h2>
          <CountTags counts={view.counts.value} />
          {group.devices.length === 0 && <p>{words.noDevices}</p>}
          <ul class="plain">
            {group.devices.map((member) => (
              <Row key={member.deviceId} member={member} />
            ))}
          </ul>
        </section>
      </div>
      {bulkId !== undefined && <RunPart bulkId={bulkId} />}
    </>
  );
}

function Row({ member: { deviceId, name, online, position, refused } }: { member: Member }) {
  return (
    <li class="item">
      <a href={hrefOf({ screen: 'device', deviceId })}>{name ?? deviceId}</a>
      {refused === undefined ? (
        <span class="actions">
          <PositionText position={position} />
          <Status status={online ? 'online' : 'offline'} />
        </span>
      ) : (
        <span class="hint">{reasonWords(refused)}</span>
      )}
    </li>
  );
}

function Management({ view }: { view: GroupView }) {
  const isOpen = useSignal(false);
  const group = view.state.value;
  const api = session().api.groups[':groupId'];
  const param = { groupId: view.groupId };
  if (group === null) return null;
  return (
    <div class="actions">
      <button type="button" onClick={() => (isOpen.value = true)}>
        {words.edit}
      </button>
      <AskFirst
        label={words.remove}
        kind="danger"
        warning={words.removeWarning(group.name)}
        confirm={words.remove}
        onConfirm={async () => {
          await dataOf(api.$delete({ param }));
          goTo({ screen: 'groups' });
        }}
      />
      {isOpen.value && (
        <Dialog title={words.edit} onClose={() => (isOpen.value = false)}>
          <GroupForm
            group={group}
            onSave={async (json) => {
              await dataOf(api.$patch({ param, json }));
              view.refresh();
              isOpen.value = false;
            }}
          />
        </Dialog>
      )}
    </div>
  );
}
