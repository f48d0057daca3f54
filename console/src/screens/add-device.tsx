// Adding a device: over Bluetooth from this page, or by hand with an address that makes the device yours.
import { useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { bluetoothOf } from '../bluetooth/link.ts';
import { BoxCode } from '../adding/box-code.tsx';
import { ManualWay } from '../adding/manual-way.tsx';
import { AddingProgress } from '../adding/adding-progress.tsx';
import { Field } from '../parts/form.tsx';
import { Title } from '../parts/title.tsx';
import { hrefOf } from '../router.ts';
import { DeviceAdding } from '../state/adding.ts';
import { isLoopback } from '../state/claim.ts';
import type { DeviceCode } from '../state/device-code.ts';
import { texts } from '../texts.ts';
import { addingTexts } from '../texts/adding.ts';

const words = addingTexts.add;

export function AddDevice({ code: fromAddress }: { code?: DeviceCode | undefined }) {
  const bluetooth = bluetoothOf(navigator);
  const base = useSignal(location.origin);
  const code = useSignal(fromAddress);
  return (
    <main id="content" class="narrow">
      <p class="back">
        <a href={hrefOf({ screen: 'devices' })}>← {texts.device.back}</a>
      </p>
      <Title>{words.title}</Title>
      <p class="hint">{words.intro}</p>
      <BoxCode code={code} />
      {bluetooth === undefined ? (
        <NoBluetooth />
      ) : (
        <OverBluetooth bluetooth={bluetooth} base={base.value} code={code.value} />
      )}
      <section class="card" aria-label={words.address}>
        <Field
          label={words.address}
          hint={words.addressHint}
          name="base"
          value={base.value}
          onInput={(value) => (base.value = value.trim())}
        />
        {isLoopback(base.value) && <p class="notice warn">{words.loopback(base.value)}</p>}
      </section>
      <ManualWay base={base.value} code={code.value} isOnlyWay={bluetooth === undefined} />
    </main>
  );
}

function NoBluetooth() {
  return (
    <section class="card" aria-label={words.bluetooth}>
      <h2>{words.bluetooth}</h2>
      <p class="notice">{isSecureContext ? words.noBluetooth : words.insecure}</p>
    </section>
  );
}

type OverBluetoothProps = {
  bluetooth: NonNullable<ReturnType<typeof bluetoothOf>>;
  base: string;
  code: DeviceCode | undefined;
};

function OverBluetooth({ bluetooth, base, code }: OverBluetoothProps) {
  const adding = useMemo(() => new DeviceAdding(), []);
  const isAvailable = useSignal(true);
  const isShown = useSignal(false);
  useEffect(() => {
    const look = (): void => {
      // Where the browser does not say, choosing will tell.
      bluetooth.getAvailability().then(
        (is) => (isAvailable.value = is),
        () => (isAvailable.value = true),
      );
    };
    look();
    bluetooth.addEventListener('availabilitychanged', look);
    return () => {
      bluetooth.removeEventListener('availabilitychanged', look);
      adding.cancel();
    };
  }, []);
  const state = adding.state.value;
  const isUnderWay = state.step !== 'idle' && state.step !== 'error' && state.step !== 'activated';
  return (
    <section class="card" aria-label={words.bluetooth}>
      <h2>{words.bluetooth}</h2>
      {!isAvailable.value && <p class="notice warn">{words.adapterOff}</p>}
      {state.step !== 'activated' && (
        <form
          hidden={isUnderWay}
          autocomplete="off"
          onSubmit={(event) => {
            event.preventDefault();
            const given = new FormData(event.currentTarget);
            const { ssid, password } = { ssid: given.get('ssid'), password: given.get('wifi-password') };
            if (typeof ssid === 'string' && typeof password === 'string')
              adding.begin(bluetooth, { ssid, password }, base, code);
          }}
        >
          <Field label={words.ssid} hint={words.ssidHint} name="ssid" required autoComplete="off" />
          <Field
            label={words.password}
            hint={words.passwordHint}
            name="wifi-password"
            type={isShown.value ? 'text' : 'password'}
            autoComplete="off"
          />
          <label class="check">
            <input
              type="checkbox"
              checked={isShown.value}
              onChange={(event) => (isShown.value = event.currentTarget.checked)}
            />
            {words.showPassword}
          </label>
          <button type="submit" class="primary">
            {words.choose}
          </button>
        </form>
      )}
      <AddingProgress adding={adding} />
    </section>
  );
}
