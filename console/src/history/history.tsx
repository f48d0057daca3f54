// What happened to a device, and what it reported: all that is looked back at.
import { dataOf } from '@latchwork/client';
import { useComputed, useSignal } from '@preact/signals';
import { Problem } from '../parts/form.tsx';
import { useRead } from '../parts/read.ts';
import { Timeline } from '../parts/timeline.tsx';
import { hrefOf } from '../router.ts';
import { ago, clockTime, nowMs } from '../state/clock.ts';
import type { DeviceView, Properties } from '../state/device.ts';
import { session } from '../state/session.ts';
import { texts } from '../texts.ts';
import { usageTexts } from '../texts/usage.ts';
import { addDays, daysKept } from './days.ts';
import { DayPart, MonthPart, NumberPart } from './parts.tsx';

const words = texts.device;

export function DeviceHistory({ view }: { view: DeviceView }) {
  const properties = view.properties.value;
  return (
    <>
      <link rel="stylesheet" href="console/charts.css" />
      <Usage view={view} />
      <div class="columns">
        <section class="card" aria-label={words.timeline}>
          <h2>{words.timeline}</h2>
          <Timeline view={view} />
        </section>
        <section class="card" aria-label={words.properties}>
          <h2>{words.properties}</h2>
          {properties === null ? <p>{texts.loading}</p> : <Values list={properties.list} />}
        </section>
      </div>
    </>
  );
}

/** Which day it is in the zone of the owner, the service says. */
function Usage({ view }: { view: DeviceView }) {
  const { deviceId } = view;
  const minute = useComputed(() => Math.floor(nowMs.value / 60_000)).value;
  const chosen = useSignal<string | null>(null);
  const { usage } = session().api.devices[':deviceId'];
  const read = () => dataOf(usage.$get({ param: { deviceId }, query: { step: 'day' } }));
  const { value, problem } = useRead(read, undefined, Math.floor(minute / 15));
  const present = value.value?.list.at(-1);
  if (present === undefined) return problem === '' ? <p>{texts.loading}</p> : <Problem text={problem} />;
  const date = chosen.value ?? present.to;
  const version = [minute, view.position.value, view.status.value, view.actual.value?.value].join(' ');
  const numbers = view.properties.value?.list.filter(({ value: reported }) => typeof reported === 'number');
  const names = numbers?.map(({ name }) => name);
  const common = {
    ...{ deviceId, date, version, today: present.to, first: addDays(present.to, 1 - daysKept) },
    onDate: (day: string) => (chosen.value = day),
  };
  return (
    <>
      <Zone zone={present.zone} isOwner={view.device.value?.role === 'owner'} />
      <DayPart {...common} />
      <div class="columns even">
        <MonthPart {...common} />
        {names !== undefined && names.length > 0 && <NumberPart {...common} zone={present.zone} names={names} />}
      </div>
    </>
  );
}

/** In which days are counted. Its owner changes it in the settings. */
function Zone({ zone, isOwner }: { zone: string; isOwner: boolean }) {
  const { zone: own } = session().api.users.me;
  const { value } = useRead(() => (isOwner ? dataOf(own.$get()) : Promise.resolve({ zone })));
  const next = value.value?.zone ?? zone;
  return (
    <p class="hint">
      {usageTexts.zone(zone)} {next !== zone && usageTexts.nextZone(next)}{' '}
      {isOwner && <a href={hrefOf({ screen: 'settings' })}>{usageTexts.changeZone}</a>}
    </p>
  );
}

function Values({ list }: Pick<Properties, 'list'>) {
  return (
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
  );
}
