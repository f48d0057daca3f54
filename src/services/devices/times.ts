// Schedules of a device, their runs, and the end of a lease (docs/times.md): bodies become what the device's object stores, one
// call each. Zones and instants are read here; due times follow in the object. No D1.
import type { ServiceContext } from '../../context.ts';
import { createId } from '../../crypto/secrets.ts';
import { actorOf, type Actor } from '../../domain/access.ts';
import { parseControl } from '../../domain/control-command.ts';
import { isIdempotent } from '../../domain/device/commands/command-life.ts';
import { instantOfLocal, isZone, nextDue, type Due, type Timing } from '../../domain/device/times/calendar.ts';
import type { LeaseView } from '../../domain/device/times/lease.ts';
import type { RunPage } from '../../domain/device/core/views.ts';
import type { Run } from '../../domain/device/times/ledger.ts';
import type { NextView, ScheduleDraft, ScheduleView } from '../../domain/device/times/schedules.ts';
import type { Page, PageRequest } from '../../domain/pagination.ts';
import { RefusedError, unwrap, type Outcome } from '../../domain/refusal.ts';
import { toIso } from '../../domain/time.ts';
import type { ScheduleBody } from '../../protocol/http/times.ts';
import { weekdays } from '../../protocol/vocabulary.ts';
import type { RemoteDevice } from '../../objects/calls/stubs.ts';
import { askDevice, askDeviceAs, decideAs } from './device-access.ts';

const graces = { waiting: 60, momentary: 10 };
/** Nobody waits for so short a delay of a schedule that recurs, and 7:00 is everybody's time. */
const jitterIfRecurring = 20;

/** What `caller` asks of the schedules of one device. */
export function schedulesOf(context: ServiceContext, caller: Actor, deviceId: string) {
  const actor = actorOf(caller);
  const manage = 'manageSchedules';
  const read = <T>(ask: (device: RemoteDevice) => Promise<Outcome<T>>, ifInactive: () => T) =>
    askDeviceAs<T>(context, actor, deviceId, { action: 'readSchedules', ask, ifInactive });
  const change = (scheduleId: string, what: 'pause' | 'resume' | 'remove') =>
    decideAs(context, deviceId, manage, { kind: 'schedule_changed', actor, scheduleId, change: what });
  return {
    async list(page: PageRequest) {
      const none = () => ({ list: [], total: 0, ...page });
      const answered = await read<Page<ScheduleView>>((device) => device.listSchedules(actor, page), none);
      return { ...answered, list: answered.list.map(describeSchedule) };
    },
    async read(scheduleId: string) {
      const ask = (device: RemoteDevice) => device.readSchedule(actor, scheduleId);
      return describeSchedule(await askDevice<ScheduleView>(context, deviceId, ask));
    },
    async put(body: ScheduleBody, scheduleId?: string) {
      const isNew = scheduleId === undefined;
      const facts = { scheduleId: scheduleId ?? createId('', 16), draft: draftOf(body), isNew };
      return describeSchedule(await decideAs(context, deviceId, manage, { kind: 'schedule_put', actor, ...facts }));
    },
    async change(scheduleId: string, what: 'pause' | 'resume') {
      return describeSchedule((await change(scheduleId, what)) as ScheduleView);
    },
    async remove(scheduleId: string) {
      await change(scheduleId, 'remove');
      return { scheduleId };
    },
    async run(scheduleId: string) {
      const ask = (device: RemoteDevice) => device.decide({ kind: 'schedule_run', actor, scheduleId });
      const call = { action: manage, repeat: 'once', ask } as const;
      return describeRun(await askDeviceAs<Run>(context, actor, deviceId, call));
    },
    async listNext(count: number) {
      const list = await read<NextView[]>(
        (device) => device.listNext(actor, count),
        () => [],
      );
      return { list: list.map(({ scheduleId, ...due }) => ({ scheduleId, ...describeDue(due) })) };
    },
    /** Of a schedule that is not made. */
    async preview(body: ScheduleBody, count: number) {
      await askDevice<null>(context, deviceId, (device) => device.allows(actor, manage));
      const { timing, why } = draftOf(body);
      const list: Due[] = [];
      for (let due = nextDue(timing, Date.now()); due !== null && list.length < count;) {
        list.push({ ...due, why: why ?? due.why });
        due = nextDue(timing, due.dueAtMs);
      }
      return { list: list.map(describeDue) };
    },
    async listRuns(page: PageRequest) {
      const none = () => ({ list: [], total: 0, dropped: 0, ...page });
      const answered = await read<RunPage>((device) => device.listRuns(actor, page), none);
      return { ...answered, list: answered.list.map(describeRun) };
    },
    async endLease() {
      await decideAs(context, deviceId, 'control', { kind: 'lease_ended', actor });
      return { deviceId };
    },
  };
}

function draftOf({ command, graceSeconds, jitterSeconds, ...more }: ScheduleBody): ScheduleDraft {
  const { name = '', enabled = true, ...when } = more;
  const params = unwrap(parseControl(command));
  const { timing, why } = timingOf(when);
  const mayWait = isIdempotent(params);
  const grace = graceSeconds ?? (mayWait ? graces.waiting : graces.momentary);
  if (!mayWait && grace > graces.momentary) throw invalid('graceSeconds', `must be at most ${graces.momentary}`);
  const jitter = jitterSeconds ?? (timing.kind === 'once' ? 0 : jitterIfRecurring);
  return { name, timing, why, command: params, jitterSeconds: jitter, graceSeconds: grace, enabled };
}

type When = Pick<ScheduleBody, 'at' | 'days' | 'zone' | 'from' | 'until' | 'except'>;

function timingOf(when: When): { timing: Timing; why: string | null } {
  const { at, days = null, zone = null, from = null, until = null, except = [] } = when;
  const isLocal = typeof at === 'string' && at.includes('T') && !/(?:Z|[+-]\d\d:\d\d)$/.test(at);
  const isOnce = typeof at === 'string' && at.includes('T');
  if ((zone === null && (isLocal || !isOnce)) || (zone !== null && !isZone(zone))) {
    throw invalid('zone', 'must be the name of a time zone, such as Europe/Berlin');
  }
  if (!isOnce) {
    const place = typeof at === 'string' ? { time: at } : { ...at, place: roundPlace(at.place) };
    const dates = { from, until, except: [...new Set(except)] };
    const allDays = days === null ? weekdays : weekdays.filter((day) => days.includes(day));
    return { timing: { kind: 'recurring', at: place, days: allDays, zone: zone ?? '', ...dates }, why: null };
  }
  if (days !== null || from !== null || until !== null || except.length > 0) {
    throw invalid('at', 'runs once: without days, from, until and except');
  }
  const instant = isLocal ? instantOfLocal(at, zone ?? '') : { atMs: Date.parse(at), why: null };
  if (instant === undefined || Number.isNaN(instant.atMs)) throw invalid('at', 'is no date and time');
  return { timing: { kind: 'once', atMs: instant.atMs }, why: instant.why };
}

function roundPlace({ latitude, longitude }: { latitude: number; longitude: number }) {
  return { latitude: Math.round(latitude * 10) / 10, longitude: Math.round(longitude * 10) / 10 };
}

function invalid(path: string, problem: string): RefusedError {
  return new RefusedError({ kind: 'invalid_input', path, problem });
}

function describeSchedule({ timing, pausedBecause, nextDueAtMs, ...schedule }: ScheduleView) {
  const once = { days: null, zone: null, from: null, until: null, except: [] as string[] };
  const when =
    timing.kind === 'once'
      ? { at: toIso(timing.atMs), ...once }
      : {
          at: 'time' in timing.at ? timing.at.time : timing.at,
          days: [...timing.days],
          zone: timing.zone,
          from: timing.from,
          until: timing.until,
          except: [...timing.except],
        };
  const { scheduleId, name, command, jitterSeconds, graceSeconds, author, why } = schedule;
  const plain = { scheduleId, name, command, jitterSeconds, graceSeconds, author, why };
  return { ...plain, ...when, enabled: pausedBecause !== 'user', pausedBecause, nextDueAt: toIso(nextDueAtMs) };
}

function describeDue({ dueAtMs, why, skip }: Omit<NextView, 'scheduleId'>) {
  return { dueAt: toIso(dueAtMs), why, skipped: skip };
}

function describeRun({ dueAtMs, ...run }: Run) {
  return { runId: `${run.scheduleId}:${dueAtMs}`, ...run, dueAt: toIso(dueAtMs) };
}

export function describeLease({ endsAtMs, nextAttemptAtMs, ...lease }: LeaseView) {
  return { ...lease, endsAt: toIso(endsAtMs), nextAttemptAt: toIso(nextAttemptAtMs) };
}
