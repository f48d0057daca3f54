// One device: control, what it reported beside what was asked for, the command on its way, and what happened to it.
import { useComputed, type ReadonlySignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { describeError } from '../errors.ts';
import { Control } from '../parts/control.tsx';
import { Problem } from '../parts/form.tsx';
import { Journey, Outcome } from '../parts/journey.tsx';
import { PositionChart } from '../parts/position-chart.tsx';
import { PositionText, Status } from '../parts/status.tsx';
import { hrefOf } from '../router.ts';
import { ago, clockTime } from '../state/clock.ts';
import { DeviceView, type Device, type EventView } from '../state/device.ts';
import { texts } from '../texts.ts';
import { SwitchCard } from '../parts/switch-card.tsx';
import { switchOf } from '../state/switches.ts';
import { later } from '../parts/later.tsx';
import { DeviceManagement } from './device-management.tsx';

// Loaded after what is live.
const DeviceSharing = later(async () => (await import('./device-sharing.tsx')).DeviceSharing);

const words = texts.device;

export function DeviceScreen({ deviceId }: { deviceId: string }) {
  const view = useMemo(() => new DeviceView(deviceId), []);
  useEffect(() => () => view.end(), []);
  const problem = useComputed(() => (view.error.value === null ? '' : describeError(view.error.value, words.explain)));
  const device = view.device.value;
  return (
    <main id="content">
      <p>
        <a href={hrefOf({ screen: 'devices' })}>← {words.back}</a>
      </p>
      <Problem text={problem.value} />
      {device === null ? problem.value === '' && <p>{texts.loading}</p> : <Loaded view={view} device={device} />}
    </main>
  );
}

function Loaded({ view, device }: { view: DeviceView; device: Device }) {
  const status = view.status.value ?? device.status;
  const followed = view.followed.value;
  const virtual = switchOf(device.deviceId);
  const asked = followed !== null && 'position' in followed.body ? (followed.body.position ?? null) : null;
  return (
    <>
      <header class="device-head">
        <h1>{device.name}</h1>
        <Status status={status} />
        <p class="hint">
          {device.product.name} · {words.serial} {device.deviceSN}
        </p>
      </header>
      {virtual !== null && <SwitchCard device={virtual} />}
      <section class="card" aria-label={words.control}>
        <dl class="facts">
          <dt>{words.reported}</dt>
          <dd>
            <PositionText position={view.position.value} />
          </dd>
          <dt>{words.asked}</dt>
          <dd>{asked === null ? words.nothingAsked : texts.position[asked]}</dd>
        </dl>
        <Control
          mode={device.product.controlMode}
          reported={view.position.value}
          asked={asked}
          disabledBecause={reasonOf(status, device.role)}
          onPress={(body) => {
            view.press(body).catch((error: unknown) => (view.error.value = error));
          }}
        />
        {followed !== null && <Journey command={followed.command} error={followed.error} />}
      </section>
      <section class="card">
        <h2>{words.timeline}</h2>
        <Timeline events={view.events} />
      </section>
      <section class="card">
        <h2>{words.commands}</h2>
        <Commands view={view} />
      </section>
      <section class="card">
        <h2>{words.history}</h2>
        <PositionChart changes={view.properties.value?.positionChanges ?? []} />
        <Values view={view} />
      </section>
      <DeviceSharing device={device} />
      {device.role === 'owner' && <DeviceManagement view={view} device={device} />}
    </>
  );
}

function reasonOf(status: Device['status'], role: Device['role']): string {
  if (role === 'viewer') return words.viewerReason;
  if (status === 'disabled') return words.disabledReason;
  if (status === 'inactive') return words.inactiveReason;
  return status === 'offline' ? words.offlineReason : '';
}

function Timeline({ events }: { events: ReadonlySignal<readonly EventView[]> }) {
  if (events.value.length === 0) return <p class="hint">{words.timelineEmpty}</p>;
  return (
    <ol class="timeline">
      {events.value.map((event) => (
        <li key={`${event.time} ${event.status} ${event.reason}`} class={event.status}>
          <time dateTime={event.time} title={clockTime(Date.parse(event.time))}>
            {ago(Date.parse(event.time))}
          </time>
          <strong>{texts.events[event.status]}</strong>
          <span>
            {[
              texts.events.reasons[event.reason] ?? event.reason,
              event.detail,
              event.count === undefined || event.count === 1 ? '' : texts.events.times(event.count),
              [event.email, event.role].filter((one) => typeof one === 'string').join(', '),
              typeof event.address === 'string' ? texts.events.from(event.address) : '',
            ]
              .filter((text) => text !== '')
              .join(', ')}
          </span>
        </li>
      ))}
    </ol>
  );
}

function Commands({ view }: { view: DeviceView }) {
  if (view.commands.value.length === 0) return <p class="hint">{words.commandsEmpty}</p>;
  return (
    <ol class="timeline">
      {view.commands.value.map((command) => (
        <li key={command.commandId}>
          <time dateTime={new Date(command.steps.accepted).toISOString()} title={clockTime(command.steps.accepted)}>
            {ago(command.steps.accepted)}
          </time>
          <code>{Object.values(command.params).join(' ')}</code>
          <Outcome command={command} />
        </li>
      ))}
    </ol>
  );
}

function Values({ view }: { view: DeviceView }) {
  const list = view.properties.value?.list ?? [];
  if (list.length === 0) return null;
  return (
    <>
      <h3>{words.properties}</h3>
      <dl class="facts">
        {list.map(({ name, value, time }) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              {typeof value === 'string' ? value : JSON.stringify(value)} <small>{ago(Date.parse(time))}</small>
            </dd>
          </div>
        ))}
      </dl>
    </>
  );
}
