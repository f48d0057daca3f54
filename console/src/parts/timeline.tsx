// What happened to a device, newest first: presence, logins and messages that were refused, commands and who gave them.
import type { Command } from '@latchwork/client';
import type { ComponentChildren } from 'preact';
import { explainReason } from '../errors.ts';
import { ago, clockTime } from '../state/clock.ts';
import type { DeviceView, EventView, Properties } from '../state/device.ts';
import { texts } from '../texts.ts';
import { activityTexts } from '../texts/activity.ts';
import { reasonsTexts as reasons } from '../texts/reasons.ts';
import { giverOf } from './journey.tsx';
import { Outcome } from './status.tsx';

type Rejected = NonNullable<Properties['lastRejected']>;
type Entry = { key: string; kind: string; timeMs: number; title: ComponentChildren; detail: ComponentChildren };
const shownAtOnce = 40;

export function Timeline({ view }: { view: DeviceView }) {
  const properties = view.properties.value;
  if (properties === null) return <p>{texts.loading}</p>;
  const rejected = properties.lastRejected;
  const entries = [
    ...view.events.value.map(entryOfEvent),
    ...view.commands.value.map((command) => entryOfCommand(command, view.givers.value)),
    ...(rejected === null ? [] : [entryOfRejected(rejected)]),
  ];
  if (entries.length === 0) return <p class="hint">{texts.device.timelineEmpty}</p>;
  entries.sort((one, other) => other.timeMs - one.timeMs);
  return (
    <ol class="timeline">
      {entries.slice(0, shownAtOnce).map(({ key, kind, timeMs, title, detail }) => (
        <li key={key} class={kind}>
          <span>{title}</span>
          <time dateTime={new Date(timeMs).toISOString()} title={clockTime(timeMs)}>
            {ago(timeMs)}
          </time>
          <span class="detail">{detail}</span>
        </li>
      ))}
    </ol>
  );
}

/** Why, how often, by whom and from where. */
export function explainEvent({ reason, detail, count, email, role, address }: EventView): string {
  return [
    [explainReason(reason, reasons.event), explainReason(detail, reasons.end)].filter((text) => text !== '').join(': '),
    count === undefined || count === 1 ? '' : activityTexts.events.times(count),
    [email, role].filter((one) => typeof one === 'string').join(', '),
    typeof address === 'string' && address !== 'unknown' ? activityTexts.events.from(address) : '',
  ]
    .filter((text) => text !== '')
    .join(', ');
}

function entryOfEvent(event: EventView): Entry {
  const { time, status, reason } = event;
  return {
    key: `${time} ${status} ${reason}`,
    kind: status,
    timeMs: Date.parse(time),
    title: <strong>{activityTexts.events[status]}</strong>,
    detail: explainEvent(event),
  };
}

function entryOfCommand(command: Command, givers: ReadonlyMap<number | null, string>): Entry {
  const { commandId, params, steps } = command;
  return {
    key: commandId,
    kind: 'command',
    timeMs: steps.accepted,
    title: (
      <>
        <strong>{activityTexts.way.title}</strong> <code>{Object.values(params).join(' ')}</code>
      </>
    ),
    detail: (
      <>
        <Outcome command={command} /> {giverOf(command, givers)}
      </>
    ),
  };
}

function entryOfRejected({ time, reason, dropped, text }: Rejected): Entry {
  const words = activityTexts.rejected;
  return {
    key: `rejected ${time}`,
    kind: 'rejected',
    timeMs: Date.parse(time),
    title: <strong>{dropped.length === 0 ? words.title : words.partly(dropped.join(', '))}</strong>,
    detail: (
      <>
        {explainReason(reason, reasons.rejected)}: <code>{text}</code>
      </>
    ),
  };
}
