// The form of a scene, new or changed: its devices, and a command for each of them.
import type { Client, Data } from '@latchwork/client';
import { useSignal } from '@preact/signals';
import { InputError } from '../errors.ts';
import { DevicePicker } from '../groups/picker.tsx';
import { Field, Form, Select } from '../parts/form.tsx';
import { nameOf } from '../state/device-names.ts';
import { commands, commandsOf, type CommandName } from '../state/fixed-commands.ts';
import { scenesTexts } from '../texts/groups.ts';
import { owningTexts } from '../texts/owning.ts';
import { commandWords } from '../times/sentence.ts';

const words = scenesTexts.form;
const mostItems = 50;
/** What the scene has, if it is none of the commands to choose from. */
const asItIs = 'as-it-is';
export type SceneRecord = Data<Client['scenes']['$get']>['list'][number];
type SceneBody = Parameters<Client['scenes']['$post']>[0]['json'];
type Command = SceneRecord['items'][number]['command'];

type Props = {
  /** null: a new one. */
  scene: SceneRecord | null;
  onSave: (body: SceneBody) => Promise<void>;
};

export function SceneForm({ scene, onSave }: Props) {
  const chosen = useSignal<readonly string[]>(scene?.items.map(({ deviceId }) => deviceId) ?? []);
  const formerOf = (deviceId: string) => scene?.items.find((item) => item.deviceId === deviceId)?.command;
  return (
    <Form
      submit={words.save}
      onSubmit={async ({ name = '', deadlineSeconds, ...values }, data) => {
        const deviceIds = chosen.value;
        if (deviceIds.length === 0) throw new InputError(words.nonePicked);
        if (deviceIds.length > mostItems) throw new InputError(words.tooMany);
        const commandOf = (deviceId: string) => {
          const command = values[`command ${deviceId}`] ?? asItIs;
          return command === asItIs ? formerOf(deviceId) : commands[command as CommandName];
        };
        const items = deviceIds.map((deviceId) => ({ deviceId, command: commandOf(deviceId) }));
        await onSave({ name, items, putBack: data.has('putBack'), deadlineSeconds: Number(deadlineSeconds) });
      }}
    >
      <Field label={words.name} name="name" value={scene?.name ?? ''} required maxLength={100} />
      <DevicePicker
        legend={words.items}
        chosen={chosen}
        isOffered={({ product }) => commandsOf[product.controlMode].length > 0}
      >
        {(deviceId, device) => {
          const former = formerOf(deviceId);
          const names = device === undefined ? [] : commandsOf[device.product.controlMode];
          const known = names.find((name) => former !== undefined && isSame(commands[name], former));
          const kept = former !== undefined && known === undefined ? [[asItIs, commandWords(former)] as const] : [];
          return (
            <Select
              label={words.command(nameOf(deviceId))}
              name={`command ${deviceId}`}
              value={kept[0]?.[0] ?? known ?? names[0] ?? ''}
              options={[...kept, ...names.map((name) => [name, owningTexts.guestLinks.commands[name]] as const)]}
            />
          );
        }}
      </DevicePicker>
      <Field
        label={words.deadline}
        name="deadlineSeconds"
        type="number"
        min={5}
        max={60}
        value={String(scene?.deadlineSeconds ?? 30)}
        required
      />
      <label class="check">
        <input type="checkbox" name="putBack" defaultChecked={scene?.putBack} />
        {words.putBack}
      </label>
    </Form>
  );
}

function isSame(command: object, other: Command): boolean {
  const sorted = (body: object) => JSON.stringify(Object.entries(body).sort());
  return sorted(command) === sorted(other);
}
