// One device: control, what it reported beside what anybody asked for last, how far that came, and what happened to it.
import type { Command } from '@latchwork/client';
import { useComputed } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { describeError } from '../errors.ts';
import { Control } from '../parts/control.tsx';
import { Problem } from '../parts/form.tsx';
import { giverOf, Journey } from '../parts/journey.tsx';
import { PositionChart } from '../parts/position-chart.tsx';
import { PositionText, Status } from '../parts/status.tsx';
import { explainEvent, Timeline } from '../parts/timeline.tsx';
import { Title } from '../parts/title.tsx';
import { hrefOf } from '../router.ts';
import { ago, clockTime } from '../state/clock.ts';
import { DeviceView, type Device, type Position, type Properties } from '../state/device.ts';
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
            {view.properties.value === null ? <p>{texts.loading}</p> : <History properties={view.properties.value} />}
          </section>
          <DeviceSharing device={device} memberChanges={view.memberChanges} />
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
  const pressed = view.pressed.value;
  const newest = view.commands.value[0] ?? null;
  // Until the service has the own command, it shows an older one.
  const isSending = pressed !== null && pressed.error === null;
  const params = isSending ? pressed.body : newest?.params;
  const giver = isSending || newest === null ? '' : giverOf(newest, view.givers.value);
  const reported = view.position.value;
  const asked = positionOf(params);
  const nothing = view.properties.value === null ? texts.loading : words.nothingAsked;
  const askedWords = params === undefined ? nothing : Object.values(params).join(' ');
  const askedText = asked === null ? askedWords : texts.position[asked];
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
          <dd>
            {askedText} <small>{giver}</small>
          </dd>
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
      {(pressed !== null || newest !== null) && (
        <Journey
          command={isSending ? null : newest}
          hasMoved={newest !== null && isOtherwise(newest, view)}
          error={pressed?.error ?? null}
        />
      )}
    </section>
  );
}

function positionOf(params: object | undefined): Position | null {
  const position = params !== undefined && 'position' in params ? params.position : null;
  return position === 'up' || position === 'middle' || position === 'down' ? position : null;
}

/** What the device reported last is not what the command asked for. */
function isOtherwise({ params }: Command, { position, properties }: DeviceView): boolean {
  const angle = properties.value?.list.find(({ name }) => name === 'angle')?.value;
  const isElsewhere = positionOf(params) !== null && position.value !== positionOf(params);
  return isElsewhere || ('angle' in params && angle !== undefined && angle !== params['angle']);
}

function reasonOf(status: Device['status'], role: Device['role']): string {
  if (role === 'viewer') return words.viewerReason;
  if (status === 'disabled') return words.disabledReason;
  if (status === 'inactive') return words.inactiveReason;
  return status === 'offline' ? words.offlineReason : '';
}

function History({ properties: { list, positionChanges } }: { properties: Properties }) {
  return (
    <>
      <PositionChart changes={positionChanges} />
      {list.length > 0 && <h3>{words.properties}</h3>}
      <dl class="facts">
        {list.map(({ name, value, time, savedAt }) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              {typeof value === 'string' ? value : JSON.stringify(value)}{' '}
              <small>
                {savedAt === undefined ? ago(Date.parse(time)) : words.savedAt(clockTime(Date.parse(savedAt)))}
              </small>
            </dd>
          </div>
        ))}
      </dl>
    </>
  );
}
