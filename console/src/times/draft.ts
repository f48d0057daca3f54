// A schedule as the fields of a form, and back.
import type { CommandBody, Schedule, ScheduleBody } from '@latchwork/client';
import { InputError } from '../errors.ts';
import { timesTexts } from '../texts/times.ts';
import type { Place } from './place-fields.tsx';

export type CommandName = keyof typeof timesTexts.form.commands;
export type Kind = keyof typeof timesTexts.form.kinds;
export type Weekday = keyof typeof timesTexts.days;
export const kinds = ['time', 'sunrise', 'sunset', 'once'] as const satisfies readonly Kind[];
export const weekdays = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] as const satisfies readonly Weekday[];
export const browserZone = Intl.DateTimeFormat().resolvedOptions().timeZone;

export function zoneOptions(present: string) {
  const zones = new Set([browserZone, present, 'UTC', ...Intl.supportedValuesOf('timeZone')]);
  return [...zones].map((zone) => [zone, zone] as const);
}

const emptyForm = {
  command: 'up' as CommandName,
  duration: '500',
  angle: '90',
  kind: 'time' as Kind,
  time: '07:30',
  date: '',
  offset: '0',
  place: null as Place | null,
  days: weekdays as readonly Weekday[],
  zone: browserZone,
  name: '',
  from: '',
  until: '',
  except: '',
  jitter: '',
  grace: '',
};

/** @param schedule null: a new one */
export function formOf(schedule: Schedule | null): typeof emptyForm {
  if (schedule === null) return emptyForm;
  const { at, command, days, zone, from, until, except, name, jitterSeconds, graceSeconds } = schedule;
  // What the service takes if nothing is typed stays out of the form: it follows the command.
  const isTarget = command.position !== undefined || command.angle !== undefined;
  return {
    ...emptyForm,
    command: nameOf(command),
    ...(command.duration !== undefined && { duration: String(command.duration) }),
    ...(command.angle !== undefined && { angle: String(command.angle) }),
    ...(typeof at === 'object' && { kind: at.sun, offset: String(at.offsetMinutes), place: at.place }),
    ...(typeof at === 'string' && (days === null ? { kind: 'once', date: localOf(at) } : { time: at })),
    days: days ?? weekdays,
    zone: zone ?? browserZone,
    name,
    from: from ?? '',
    until: until ?? '',
    except: except.join(' '),
    ...(jitterSeconds !== (days === null ? 0 : 120) && { jitter: String(jitterSeconds) }),
    ...(graceSeconds !== (isTarget ? 60 : 10) && { grace: String(graceSeconds) }),
  };
}

function nameOf({ action, position, angle }: Schedule['command']): CommandName {
  if (position === 'up' || position === 'middle' || position === 'down') return position;
  if (angle !== undefined) return 'angle';
  return action === 'pulse' ? 'pulse' : 'trigger';
}

/** As a field for date and time has it, in the zone of the browser. */
function localOf(instant: string): string {
  const time = new Date(instant);
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** @throws InputError */
export function draftOf(data: FormData): ScheduleBody {
  const text = (name: string): string => {
    const value = data.get(name);
    return typeof value === 'string' ? value.trim() : '';
  };
  const count = (name: string) => (text(name) === '' ? {} : { [`${name}Seconds`]: Number(text(name)) });
  const kind = text('kind') as Kind;
  const zone = text('zone');
  const common = {
    name: text('name'),
    command: commandOf(text('command') as CommandName, text),
    ...count('jitter'),
    ...count('grace'),
  };
  if (kind === 'once') return { ...common, at: text('date'), zone };
  const days = data.getAll('days') as Weekday[];
  if (days.length === 0) throw new InputError(timesTexts.form.noDays);
  return {
    ...common,
    at:
      kind === 'time'
        ? text('time')
        : {
            sun: kind,
            offsetMinutes: Number(text('offset')),
            place: { latitude: Number(text('latitude')), longitude: Number(text('longitude')) },
          },
    days,
    zone,
    ...(text('from') !== '' && { from: text('from') }),
    ...(text('until') !== '' && { until: text('until') }),
    except: text('except')
      .split(/[\s,;]+/)
      .filter((date) => date !== ''),
  };
}

function commandOf(name: CommandName, text: (name: string) => string): CommandBody {
  switch (name) {
    case 'up':
    case 'middle':
    case 'down':
      return { action: 'toggle', position: name };
    case 'pulse':
      return { action: 'pulse', duration: Number(text('duration')) };
    case 'trigger':
      return { action: 'trigger' };
    case 'angle':
      return { angle: Number(text('angle')) };
  }
}
