// Whose a device is, for its owner: the pairing window, an offer to somebody else, and the release.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { useSignal, type Signal } from '@preact/signals';
import { AskFirst, Dialog, Once } from '../parts/dialog.tsx';
import { Action, Field, Form, Problem } from '../parts/form.tsx';
import { useRead } from '../parts/read.ts';
import { goTo } from '../router.ts';
import { clockTime, countdown, nowMs } from '../state/clock.ts';
import type { Device } from '../state/device.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { addingTexts } from '../texts/adding.ts';
import { owningTexts } from '../texts/owning.ts';

const words = owningTexts.ownership;
type Ownership = Data<Client['devices'][':deviceId']['ownership']['$get']>;
type PartProps = { ownership: Signal<Ownership | null>; present: Ownership };

export function DeviceOwnership({ device }: { device: Device }) {
  const { deviceId } = device;
  const { value: ownership, problem } = useRead<Ownership>(() =>
    dataOf(session().api.devices[':deviceId'].ownership.$get({ param: { deviceId } })),
  );
  const present = ownership.value;
  return (
    <section class="card" aria-label={words.title}>
      <h2>{words.title}</h2>
      <Problem text={problem} />
      {present === null && problem === '' && <p>{texts.loading}</p>}
      {present !== null && (
        <>
          <p>
            {present.claimedAt === null ? words.byProduct : words.claimed(clockTime(Date.parse(present.claimedAt)))}
          </p>
          {present.mustRenew && <p class="notice warn">{words.mustRenew}</p>}
          <PairingWindow ownership={ownership} present={present} />
          {present.claimedAt !== null && <Reactivation ownership={ownership} present={present} />}
          <Transfer ownership={ownership} present={present} />
          {present.claimedAt !== null && <Release device={device} />}
        </>
      )}
    </section>
  );
}

function PairingWindow({ ownership, present }: PartProps) {
  const { deviceId, pairingUntil } = present;
  const api = session().api.devices[':deviceId']['pairing-window'];
  const leftMs = pairingUntil === null ? 0 : Date.parse(pairingUntil) - nowMs.value;
  const apiUrl = useSignal('');
  const open = async (anyNetwork: boolean): Promise<void> => {
    const opened = await dataOf(api.$post({ param: { deviceId }, json: { anyNetwork } }));
    apiUrl.value = opened.apiUrl;
    ownership.value = { ...present, pairingUntil: opened.pairingUntil };
  };
  const close = async (): Promise<void> => {
    await dataOf(api.$delete({ param: { deviceId } }));
    ownership.value = { ...present, pairingUntil: null };
  };
  return (
    <>
      <h3>{words.pairing}</h3>
      <p class="hint">{words.pairingHint}</p>
      {leftMs > 0 ? (
        <>
          <div class="actions">
            <strong role="timer">{words.pairingLeft(countdown(leftMs))}</strong>
            <Action label={words.pairingClose} onPress={close} />
          </div>
          {apiUrl.value !== '' && (
            <>
              <p class="hint">{words.pairingElsewhere}</p>
              <Once label={addingTexts.add.manual.address} value={apiUrl.value} />
            </>
          )}
        </>
      ) : (
        <div class="actions">
          <Action label={words.pairingOpen} onPress={() => open(false)} />
          <Action label={words.pairingOpenAny} onPress={() => open(true)} />
        </div>
      )}
    </>
  );
}

function Reactivation({ ownership, present }: PartProps) {
  const { deviceId } = present;
  const set = (reactivation: 'open' | null) => async () => {
    await dataOf(session().api.devices[':deviceId'].$patch({ param: { deviceId }, json: { reactivation } }));
    ownership.value = await dataOf(session().api.devices[':deviceId'].ownership.$get({ param: { deviceId } }));
  };
  return (
    <>
      <h3>{words.reactivation}</h3>
      <p class="hint">{words.reactivations[present.reactivation]}</p>
      {present.reactivation === 'open' ? (
        <Action label={words.reactivationClose} onPress={set(null)} />
      ) : (
        <Action label={words.reactivationOpen} onPress={set('open')} />
      )}
    </>
  );
}

function Transfer({ ownership, present }: PartProps) {
  const { deviceId, transfer } = present;
  const api = session().api.devices[':deviceId'].transfer;
  const isAsking = useSignal<string | null>(null);
  return (
    <>
      <h3>{words.transfer}</h3>
      <p class="hint">{words.transferHint}</p>
      {transfer === null ? (
        <Form
          submit={words.offer}
          onSubmit={({ email = '' }) => {
            isAsking.value = email;
            return Promise.resolve();
          }}
        >
          <Field label={words.email} name="email" type="email" required maxLength={254} autoComplete="off" />
        </Form>
      ) : (
        <div class="actions">
          <span>{words.offered(transfer.email, clockTime(Date.parse(transfer.expiresAt)))}</span>
          <Action
            label={words.withdraw}
            onPress={async () => {
              await dataOf(api.$delete({ param: { deviceId } }));
              ownership.value = { ...present, transfer: null };
            }}
          />
        </div>
      )}
      {isAsking.value !== null && (
        <Dialog title={words.transfer} onClose={() => (isAsking.value = null)}>
          <p>{words.transferWarning(isAsking.value)}</p>
          <Action
            label={words.offerConfirm}
            kind="danger"
            onPress={async () => {
              const json = { email: isAsking.value ?? '' };
              const { email, expiresAt } = await dataOf(api.$post({ param: { deviceId }, json }));
              ownership.value = { ...present, transfer: { email, expiresAt } };
              isAsking.value = null;
            }}
          />
        </Dialog>
      )}
    </>
  );
}

function Release({ device: { deviceId, name } }: { device: Device }) {
  return (
    <>
      <h3>{words.release}</h3>
      <p class="hint">{words.releaseHint}</p>
      <AskFirst
        label={words.release}
        kind="danger"
        warning={words.releaseWarning(name)}
        confirm={words.releaseConfirm}
        onConfirm={async () => {
          await dataOf(session().api.devices[':deviceId'].release.$post({ param: { deviceId } }));
          goTo({ screen: 'devices' });
        }}
      />
    </>
  );
}
