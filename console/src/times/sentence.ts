// Schedules and commands as sentences: "Weekdays 07:30: up".
import type { Schedule } from '@latchwork/client';
import { texts } from '../texts.ts';
import { timesTexts as words } from '../texts/times.ts';
import { browserZone, weekdays, type Weekday } from './draft.ts';

/** What a command asks for. */
export function commandWords(params: Record<string, unknown>): string {
  const { action, position, duration, angle } = params;
  if (position === 'up' || position === 'middle' || position === 'down') return texts.position[position];
  if (typeof angle === 'number') return `${angle}°`;
  if (action === 'scene') return words.scene;
  if (action === 'pulse') return duration === undefined ? texts.device.pulse : words.pulse(Number(duration));
  return action === 'trigger' ? texts.device.trigger : Object.values(params).join(' ');
}

export function sentenceOf(schedule: Schedule): string {
  return words.sentence(whenOf(schedule), commandWords(schedule.command).toLowerCase());
}

/** Zone and dates, as far as they are not the usual ones. */
export function limitsOf({ zone, from, until, except }: Schedule): string[] {
  return [
    zone === null || zone === browserZone ? '' : words.inZone(zone),
    from === null ? '' : words.from(dateOf(from)),
    until === null ? '' : words.until(dateOf(until)),
    except.length === 0 ? '' : words.except(except.map(dateOf).join(', ')),
  ].filter((text) => text !== '');
}

function whenOf({ at, days }: Schedule): string {
  const on = daysOf(days ?? weekdays);
  if (typeof at === 'string') return days === null ? words.once(momentOf(at)) : words.at(on, at);
  return words.atSun(on, words.suns[at.sun], at.offsetMinutes);
}

function daysOf(days: readonly Weekday[]): string {
  const places = weekdays.flatMap((day, index) => (days.includes(day) ? [index] : [])).join('');
  const named: Partial<Record<string, string>> = {
    '0123456': words.everyDay,
    '01234': words.weekdays,
    '56': words.weekend,
  };
  return named[places] ?? weekdays.flatMap((day) => (days.includes(day) ? [words.days[day]] : [])).join(', ');
}

/** @param zone null: that of the browser */
export function momentOf(instant: string, zone: string | null = null): string {
  const time = new Date(instant);
  const isThisYear = time.getFullYear() === new Date().getFullYear();
  return time.toLocaleString('en-GB', {
    timeZone: zone ?? browserZone,
    weekday: 'short',
    day: 'numeric',
    month: 'short',
    ...(!isThisYear && { year: 'numeric' }),
    hour: '2-digit',
    minute: '2-digit',
  });
}

function dateOf(date: string): string {
  return new Date(`${date}T12:00:00`).toLocaleDateString('en-GB', { day: 'numeric', month: 'short', year: 'numeric' });
}
