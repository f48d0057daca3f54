// The form of a group, new or changed: devices that are picked, or all that have a tag.
import type { Client } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { InputError } from '../errors.ts';
import { Choice, Field, Form } from '../parts/form.tsx';
import { groupsTexts } from '../texts/groups.ts';
import type { Group } from './group-view.ts';
import { DevicePicker } from './picker.tsx';

const words = groupsTexts.form;
type GroupBody = Parameters<Client['groups']['$post']>[0]['json'];

type Props = {
  /** null: a new one. */
  group: Group | null;
  onSave: (body: GroupBody) => Promise<void>;
};

export function GroupForm({ group, onSave }: Props) {
  const kind = useSignal<keyof typeof words.kinds>(group !== null && group.tag !== null ? 'tag' : 'picked');
  const chosen = useSignal<readonly string[]>(group?.deviceIds ?? []);
  return (
    <Form
      submit={words.save}
      onSubmit={async ({ name = '', tag = '' }) => {
        const isTag = kind.value === 'tag';
        if (!isTag && chosen.value.length === 0) throw new InputError(words.nonePicked);
        const productKey = isTag && group?.tag === tag ? group.productKey : null;
        await onSave({ name, tag: isTag ? tag : null, deviceIds: isTag ? null : [...chosen.value], productKey });
      }}
    >
      <Field label={words.name} name="name" value={group?.name ?? ''} required maxLength={100} />
      <Choice legend={words.which} labels={words.kinds} chosen={kind} />
      {kind.value === 'tag' ? (
        <Field label={words.tag} hint={words.tagHint} name="tag" value={group?.tag ?? ''} required maxLength={32} />
      ) : (
        <DevicePicker legend={words.pick} chosen={chosen} />
      )}
    </Form>
  );
}
