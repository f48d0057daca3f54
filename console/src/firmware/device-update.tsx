// The firmware of one device: what it says that it runs, and how far it is with the newest version that was offered to it.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { describeError } from '../errors.ts';
import { Action, Problem } from '../parts/form.tsx';
import { ago, clockTime } from '../state/clock.ts';
import type { Device, DeviceView } from '../state/device.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { updateTexts as words } from '../texts/firmware.ts';
import { useFollowed } from './followed.ts';
import { kindOf, outcomeWords } from './outcomes.ts';

type DeviceFirmware = Data<Client['devices'][':deviceId']['firmware']['$get']>;
type Update = NonNullable<DeviceFirmware['update']>;

export function DeviceUpdate({ view, device }: { view: DeviceView; device: Device }) {
  const { firmware: api } = session().api.devices[':deviceId'];
  const param = { deviceId: device.deviceId };
  const firmware = useFollowed(
    () => dataOf(api.$get({ param })),
    ({ update }) => update !== null && update.endsAt !== null,
    // Among them are sessions, in which the device says what it runs.
    view.events.value,
  );
  const found = firmware.value.value;
  const error = firmware.error.value;
  const update = found?.update ?? null;
  const mayPutOff = device.role === 'owner' && update?.state === 'offered' && !update.security;
  return (
    <div class="single">
      <Problem text={error === null ? '' : describeError(error)} />
      {found === null && error === null && <p>{texts.loading}</p>}
      {found !== null && <Installed installed={found.installed} />}
      {found !== null && (
        <section class="card" aria-label={words.update}>
          <h2>{words.update}</h2>
          {update === null ? <p>{words.none}</p> : <Way update={update} />}
          {mayPutOff && (
            <>
              <p class="hint">{words.notNowHint}</p>
              <Action
                label={words.notNow}
                onPress={async () => {
                  await dataOf(api.postpone.$post({ param }));
                  await firmware.read();
                }}
              />
            </>
          )}
        </section>
      )}
    </div>
  );
}

function Installed({ installed }: Pick<DeviceFirmware, 'installed'>) {
  return (
    <section class="card" aria-label={words.installed}>
      <h2>{words.installed}</h2>
      {installed === null ? (
        <p>{words.notReported}</p>
      ) : (
        <>
          <p>
            <strong>{installed.version}</strong>{' '}
            <span class="hint">
              {installed.slot !== undefined && `${words.slot(installed.slot)} · `}
              {words.reported(ago(Date.parse(installed.reportedAt)))}
            </span>
          </p>
          {installed.keys !== undefined && <p class="hint">{words.trusts(installed.keys.join(', '))}</p>}
        </>
      )}
    </section>
  );
}

function Way({ update }: { update: Update }) {
  const { state, version, formerVersion, security, percent, endsAt, steps } = update;
  const end = endsAt === null ? null : clockTime(Date.parse(endsAt));
  return (
    <>
      <p>
        <strong>{words.fromTo(formerVersion, version)}</strong>
        {security && <span class="hint"> · {words.security}</span>}
      </p>
      <div role="status">
        <span class={`outcome ${kindOf(state)}`}>{outcomeWords(update)}</span>
        <p class="hint">{words.means[state]}</p>
      </div>
      {state === 'downloading' && (
        <>
          <progress max={100} value={percent} aria-label={words.states.downloading} />
          <p class="hint">{words.percent(percent)}</p>
        </>
      )}
      {end !== null && <p class="hint">{state === 'postponed' ? words.offeredAgain(end) : words.ends(end)}</p>}
      <ol class="steps">
        {steps.map((step) => (
          <li key={step.state} class={kindOf(step.state) === 'bad' ? 'bad' : 'done'}>
            <span>{words.states[step.state]}</span>
            <span>{clockTime(Date.parse(step.time))}</span>
          </li>
        ))}
      </ol>
    </>
  );
}
