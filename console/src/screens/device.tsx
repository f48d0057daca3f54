// One device: control, what it reported beside what was asked for, the command on its way, and what happened to it.
import { useComputed } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { describeError } from '../errors.ts';
import { Control } from '../parts/control.tsx';
import { Problem } from '../parts/form.tsx';
import { Journey } from '../parts/journey.tsx';
import { PositionChart } from '../parts/position-chart.tsx';
import { PositionText, Status } from '../parts/status.tsx';
import { explainEvent, Timeline } from '../parts/timeline.tsx';
import { Title } from '../parts/title.tsx';
import { hrefOf } from '../router.ts';
import { ago } from '../state/clock.ts';
import { DeviceView, type Device } from '../state/device.ts';
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
      <p class="back">
        <a href={hrefOf({ screen: 'devices' })}>← {words.back}</a>
      </p>
      <Problem text={problem.value} />
      {device === null ? problem.value === '' && <p>{texts.loading}</p> : <Loaded view={view} device={device} />}
    </main>
  );
}

function Loaded({ view, device }: { view: DeviceView; device: Device }) {
  const status = view.status.value ?? device.status;
  const virtual = switchOf(device.deviceId);
  return (
    <>
      <Head view={view} device={device} status={status} />
      <div class="columns">
        <div>
          {virtual !== null && <SwitchCard device={virtual} status={status} />}
          <Pressing view={view} device={device} status={status} />
          <section class="card" aria-label={words.timeline}>
            <h2>{words.timeline}</h2>
            <Timeline view={view} />
          </section>
        </div>
        <div>
          <section class="card" aria-label={words.history}>
            <h2>{words.history}</h2>
            <PositionChart changes={view.properties.value?.positionChanges ?? []} />
            <Values view={view} />
          </section>
          <DeviceSharing device={device} />
          {device.role === 'owner' && <DeviceManagement view={view} device={device} />}
        </div>
      </div>
    </>
  );
}

function Head({ view, device, status }: { view: DeviceView; device: Device; status: Device['status'] }) {
  const change = view.events.value.find((event) => event.status === status);
  return (
    <header class="device-head">
      <Title>{device.name}</Title>
      <Status status={status} />
      {change !== undefined && (
        <span class="hint">{words.since(ago(Date.parse(change.time)), explainEvent(change))}</span>
      )}
      <p class="hint">
        {device.product.name} · {words.serial} {device.deviceSN}
        {[device.firmwareVersion, device.chipModel].filter((text) => text !== '').map((text) => ` · ${text}`)}
      </p>
    </header>
  );
}

function Pressing({ view, device, status }: { view: DeviceView; device: Device; status: Device['status'] }) {
  const followed = view.followed.value;
  const reported = view.position.value;
  const asked = followed !== null && 'position' in followed.body ? (followed.body.position ?? null) : null;
  return (
    <section class="card" aria-label={words.control}>
      <h2>{words.control}</h2>
      <dl class="sides">
        <div>
          <dt>{words.reported}</dt>
          <dd>
            <PositionText position={reported} />
          </dd>
        </div>
        <div class={asked !== null && asked !== reported ? 'differs' : undefined}>
          <dt>{words.asked}</dt>
          <dd>{asked === null ? words.nothingAsked : texts.position[asked]}</dd>
        </div>
      </dl>
      <Control
        mode={device.product.controlMode}
        reported={reported}
        asked={asked}
        disabledBecause={reasonOf(status, device.role)}
        onPress={(body) => {
          view.press(body).catch((error: unknown) => (view.error.value = error));
        }}
      />
      {followed !== null && <Journey command={followed.command} error={followed.error} />}
    </section>
  );
}

function reasonOf(status: Device['status'], role: Device['role']): string {
  if (role === 'viewer') return words.viewerReason;
  if (status === 'disabled') return words.disabledReason;
  if (status === 'inactive') return words.inactiveReason;
  return status === 'offline' ? words.offlineReason : '';
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
