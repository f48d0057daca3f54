// Rename, disable, new credentials, delete: what changes a device for good asks first.
import { useSignal } from '@preact/signals';
import { AskFirst, Dialog, Once } from '../parts/dialog.tsx';
import { Action, Field, Form } from '../parts/form.tsx';
import { goTo } from '../router.ts';
import type { Device, DeviceView } from '../state/device.ts';
import { forgetSwitch } from '../state/switches.ts';
import { managingTexts as words } from '../texts/managing.ts';

export function DeviceManagement({ view, device }: { view: DeviceView; device: Device }) {
  const isOpen = useSignal(false);
  const password = useSignal<string | null>(null);
  const isDisabled = view.status.value === 'disabled';
  const close = () => {
    isOpen.value = false;
    password.value = null;
  };
  return (
    <section class="card">
      <h2>{words.manage}</h2>
      <Form submit={words.rename} onSubmit={({ name = '' }) => view.change({ name })}>
        <Field label={words.name} name="name" value={device.name} required maxLength={100} />
      </Form>
      <Form
        submit={words.saveTags}
        done={words.tagsSaved}
        onSubmit={({ tags = '' }) => {
          const typed = tags.split(',').map((tag) => tag.trim());
          return view.change({ tags: [...new Set(typed.filter((tag) => tag !== ''))] });
        }}
      >
        <Field label={words.tags} hint={words.tagsHint} name="tags" value={device.tags.join(', ')} />
      </Form>
      <p class="hint">{words.disableHint}</p>
      <Action
        label={isDisabled ? words.enable : words.disable}
        onPress={() => view.change({ disabled: !isDisabled })}
      />
      <p class="hint">{words.credentialsHint}</p>
      <div class="actions">
        <button type="button" onClick={() => (isOpen.value = true)}>
          {words.credentials}
        </button>
        <AskFirst
          label={words.remove}
          kind="danger"
          warning={words.removeWarning(device.name)}
          confirm={words.removeConfirm}
          onConfirm={async () => {
            await view.remove();
            forgetSwitch(view.deviceId);
            goTo({ screen: 'devices' });
          }}
        />
      </div>
      {isOpen.value && (
        <Dialog title={words.credentials} onClose={close}>
          <p>{words.credentialsHint}</p>
          {password.value === null ? (
            <Action
              label={words.credentials}
              kind="danger"
              onPress={async () => {
                const { mqtt } = await view.replaceCredentials();
                password.value = mqtt.password;
              }}
            />
          ) : (
            <Once label={words.credentialsShown} value={password.value} />
          )}
        </Dialog>
      )}
    </section>
  );
}
