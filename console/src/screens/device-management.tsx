// Rename, disable, new credentials, delete: what changes a device for good asks first.
import { useSignal } from '@preact/signals';
import { Dialog, Once } from '../parts/dialog.tsx';
import { Action, Field, Form } from '../parts/form.tsx';
import { goTo } from '../router.ts';
import type { Device, DeviceView } from '../state/device.ts';
import { forgetSwitch } from '../state/switches.ts';
import { texts } from '../texts.ts';

const words = texts.device;

export function DeviceManagement({ view, device }: { view: DeviceView; device: Device }) {
  const open = useSignal<'none' | 'remove' | 'credentials'>('none');
  const password = useSignal<string | null>(null);
  const isDisabled = view.status.value === 'disabled';
  const close = () => {
    open.value = 'none';
    password.value = null;
  };
  return (
    <section class="card">
      <h2>{words.manage}</h2>
      <Form submit={words.rename} onSubmit={({ name = '' }) => view.change({ name })}>
        <Field label={words.name} name="name" value={device.name} required maxLength={100} />
      </Form>
      <p class="hint">{words.disableHint}</p>
      <Action
        label={isDisabled ? words.enable : words.disable}
        onPress={() => view.change({ disabled: !isDisabled })}
      />
      <p class="hint">{words.credentialsHint}</p>
      <div class="actions">
        <button type="button" onClick={() => (open.value = 'credentials')}>
          {words.credentials}
        </button>
        <button type="button" class="danger" onClick={() => (open.value = 'remove')}>
          {words.remove}
        </button>
      </div>
      {open.value === 'credentials' && (
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
      {open.value === 'remove' && (
        <Dialog title={words.remove} onClose={close}>
          <p>{words.removeWarning(device.name)}</p>
          <Action
            label={words.removeConfirm}
            kind="danger"
            onPress={async () => {
              await view.remove();
              forgetSwitch(view.deviceId);
              goTo({ screen: 'devices' });
            }}
          />
        </Dialog>
      )}
    </section>
  );
}
