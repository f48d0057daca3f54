// One device, in tabs. Control is the one of every day: what the device reported beside what anybody asked for last, and how far
// that came. The others are loaded when they are opened.
import { useComputed, useSignalEffect } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { describeError } from '../errors.ts';
import { Control } from '../parts/control.tsx';
import { Problem } from '../parts/form.tsx';
import { giverOf, Journey } from '../parts/journey.tsx';
import { PositionText, Status } from '../parts/status.tsx';
import { Tabs } from '../parts/tabs.tsx';
import { explainEvent } from '../parts/timeline.tsx';
import { Title } from '../parts/title.tsx';
import { deviceTabs, hrefOf, type DeviceTab } from '../router.ts';
import { ago } from '../state/clock.ts';
import { DeviceView, type Device, type Position } from '../state/device.ts';
import { takeTryAgain } from '../state/notice-clicks.ts';
import { LeasePart } from '../times/lease.tsx';
import { commandWords } from '../times/sentence.ts';
import { texts } from '../texts.ts';
import { witnessTexts } from '../texts/witness.ts';
import { seenWords } from '../witness/outcome.tsx';
import { SwitchCard } from '../parts/switch-card.tsx';
import { switchOf } from '../state/switches.ts';
import { later } from '../parts/later.tsx';

const DeviceTimes = later(async () => (await import('../times/times.tsx')).DeviceTimes);
const WitnessPart = later(async () => (await import('../witness/witness-part.tsx')).WitnessPart);
const DeviceHistory = later(async () => (await import('../history/history.tsx')).DeviceHistory);
const DeviceUpdate = later(async () => (await import('../firmware/device-update.tsx')).DeviceUpdate);
const DeviceSharing = later(async () => (await import('./sharing.tsx')).DeviceSharing);
const DeviceSettings = later(async () => (await import('./settings.tsx')).DeviceSettings);

const words = texts.device;

export function DeviceScreen({ deviceId, tab }: { deviceId: string; tab: DeviceTab }) {
  const view = useMemo(() => new DeviceView(deviceId), []);
  useEffect(() => () => view.end(), []);
  useEffect(() => view.show(tab === 'control' || tab === 'history'), [tab]);
  useSignalEffect(() => {
    const body = takeTryAgain(deviceId);
    if (body !== null) view.press(body).catch((error: unknown) => (view.error.value = error));
  });
  const problem = useComputed(() => (view.error.value === null ? '' : describeError(view.error.value, words.explain)));
  const device = view.device.value;
  return (
    <main id="content">
      <p class="back">
        <a href={hrefOf({ screen: 'devices' })}>← {words.back}</a>
      </p>
      <Problem text={problem.value} />
      {device === null ? (
        problem.value === '' && <p>{texts.loading}</p>
      ) : (
        <Loaded view={view} device={device} tab={tab} />
      )}
    </main>
  );
}

function Loaded({ view, device, tab }: { view: DeviceView; device: Device; tab: DeviceTab }) {
  const status = view.status.value ?? device.status;
  const { deviceId, role } = device;
  const offered = deviceTabs.filter((name) => role === 'owner' || name !== 'settings');
  const open = offered.includes(tab) ? tab : 'control';
  return (
    <>
      <Head view={view} device={device} status={status} />
      <Tabs
        label={words.parts}
        tabs={offered.map((name) => ({
          tab: name,
          text: words.tabs[name],
          href: hrefOf({ screen: 'device', deviceId, tab: name }),
        }))}
        open={open}
      >
        {open === 'control' && <ControlTab view={view} device={device} status={status} />}
        {open === 'times' && <DeviceTimes view={view} device={device} />}
        {open === 'history' && <DeviceHistory view={view} />}
        {open === 'firmware' && <DeviceUpdate view={view} device={device} />}
        {open === 'sharing' && <DeviceSharing device={device} memberChanges={view.memberChanges} />}
        {open === 'settings' && <DeviceSettings view={view} device={device} />}
      </Tabs>
    </>
  );
}

function ControlTab({ view, device, status }: { view: DeviceView; device: Device; status: Device['status'] }) {
  const virtual = switchOf(device.deviceId);
  return (
    <div class={virtual === null ? 'single' : 'columns even'}>
      {virtual !== null && <SwitchCard device={virtual} status={status} />}
      <div>
        <Pressing view={view} device={device} status={status} />
        {device.product.controlMode !== 'readonly' && device.activatedAt !== null && view.properties.value !== null && (
          <WitnessPart view={view} device={device} isOnline={status === 'online'} />
        )}
      </div>
    </div>
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
  const { controlMode } = device.product;
  const why = reasonOf(status, device.role);
  const reported = view.position.value;
  const asked = positionOf(params);
  const actual = view.actual.value;
  const nothing = view.properties.value === null ? texts.loading : words.nothingAsked;
  return (
    <section class="card" aria-label={words.control}>
      <h2>{words.control}</h2>
      <dl class="sides">
        <div>
          <dt>{words.reported}</dt>
          <dd>
            <PositionText position={controlMode === 'dimmer' ? (angleOf(view) ?? reported) : reported} />
          </dd>
        </div>
        <div class={params !== undefined && isOtherwise(params, view) ? 'differs' : undefined}>
          <dt>{words.asked}</dt>
          <dd>
            {params === undefined ? nothing : commandWords(params)} <small>{giver}</small>
          </dd>
        </div>
        {actual !== undefined && (
          <div>
            <dt>{witnessTexts.actual}</dt>
            <dd>
              {actual === null ? witnessTexts.notSeen : witnessTexts.form.expects[actual.value]}{' '}
              <small>{actual !== null && seenWords(actual)}</small>
            </dd>
          </div>
        )}
      </dl>
      <Control
        mode={controlMode}
        reported={reported}
        asked={asked}
        disabledBecause={why}
        onPress={(body) => {
          view.press(body).catch((error: unknown) => (view.error.value = error));
        }}
      />
      <LeasePart
        view={view}
        isOffered={why === '' && (controlMode === 'toggle' || controlMode === 'generic')}
        mayEnd={device.role !== 'viewer'}
      />
      {(pressed !== null || newest !== null) && (
        <Journey
          command={isSending ? null : newest}
          hasMoved={newest !== null && isOtherwise(newest.params, view)}
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
function isOtherwise(params: Record<string, unknown>, view: DeviceView): boolean {
  const angle = angleOf(view);
  const isElsewhere = positionOf(params) !== null && view.position.value !== positionOf(params);
  return isElsewhere || ('angle' in params && angle !== null && angle !== params['angle']);
}

function angleOf({ properties }: DeviceView): number | null {
  const angle = properties.value?.list.find(({ name }) => name === 'angle')?.value;
  return typeof angle === 'number' ? angle : null;
}

function reasonOf(status: Device['status'], role: Device['role']): string {
  if (role === 'viewer') return words.viewerReason;
  if (status === 'disabled') return words.disabledReason;
  if (status === 'inactive') return words.inactiveReason;
  return status === 'offline' ? words.offlineReason : '';
}
