// Adding a device without Bluetooth in this browser: the address that makes it yours, what to send, and the wait for it.
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { provisioning } from '../bluetooth/contract.ts';
import { describeError } from '../errors.ts';
import { nowMs } from '../state/clock.ts';
import { addressWith, makeClaim, waitForDevice, type Claim } from '../state/claim.ts';
import type { DeviceCode } from '../state/device-code.ts';
import { addingTexts } from '../texts/adding.ts';
import { Added } from './adding-progress.tsx';
import { Once } from '../parts/dialog.tsx';
import { Action, Problem } from '../parts/form.tsx';

const words = addingTexts.add.manual;

type Props = { base: string; code: DeviceCode | undefined; isOnlyWay: boolean };

export function ManualWay({ base, code, isOnlyWay }: Props) {
  const claim = useSignal<Claim | null>(null);
  return (
    <section class="card" aria-label={words.title}>
      <h2>{words.title}</h2>
      <p class="hint">{isOnlyWay ? words.onlyWay : words.hint}</p>
      {claim.value === null ? (
        <Action
          label={words.make}
          kind={isOnlyWay ? 'primary' : undefined}
          onPress={async () => {
            claim.value = await makeClaim(base, code);
          }}
        />
      ) : (
        <Waiting key={claim.value.token} claim={claim.value} base={base} onOver={() => (claim.value = null)} />
      )}
    </section>
  );
}

function Waiting({ claim, base, onOver }: { claim: Claim; base: string; onOver: () => void }) {
  const deviceId = useSignal<string | null>(null);
  const problem = useSignal('');
  useEffect(() => {
    const leaving = new AbortController();
    waitForDevice(claim, leaving.signal).then(
      (found) => (deviceId.value = found),
      (error: unknown) => (problem.value = describeError(error)),
    );
    return () => leaving.abort();
  }, []);
  if (deviceId.value !== null) return <Added deviceId={deviceId.value} />;
  const leftMinutes = Math.ceil((claim.expiresAtMs - nowMs.value) / 60_000);
  if (leftMinutes <= 0) {
    return (
      <>
        <p>{words.expired}</p>
        <button type="button" onClick={onOver}>
          {words.make}
        </button>
      </>
    );
  }
  const apiUrl = addressWith(base, claim.token);
  const body = JSON.stringify({ productKey: 'YOUR-PRODUCT', deviceSN: 'SERIAL' });
  return (
    <>
      <Once label={words.address} value={apiUrl} />
      <p>{words.whatNow}</p>
      <Once label={words.overBluetooth} value={JSON.stringify({ ssid: '…', password: '…', apiUrl })} />
      <dl class="facts">
        <dt>{words.service}</dt>
        <dd>
          <code>{provisioning.service}</code>
        </dd>
        <dt>{words.write}</dt>
        <dd>
          <code>{provisioning.networkConfig}</code>
        </dd>
        <dt>{words.notify}</dt>
        <dd>
          <code>{provisioning.status}</code>
        </dd>
      </dl>
      <Once
        label={words.overHttp}
        value={`curl -X POST ${apiUrl}/api/v1/devices/activate -H 'Content-Type: application/json' -d '${body}'`}
      />
      <Problem text={problem.value} />
      <p role="status" class="waiting">
        {words.waiting(leftMinutes)}
      </p>
    </>
  );
}
