// Schedules of a device, their runs, and the end of a lease (docs/times.md): bodies become what the device's object stores, one
// call each. Zones and instants are read here; due times follow in the object. No D1.
import type { ServiceContext } from '../../context.ts';
import { createId } from '../../crypto/secrets.ts';
import { actorOf, type Actor } from '../../domain/access.ts';
import { parseControl } from '../../domain/control-command.ts';
import { mayRepeat } from '../../domain/device/commands/command-life.ts';
import { isLocal, isOnce, isZone, nextDue } from '../../domain/device/times/calendar.ts';
import { pageOf, type RunPage } from '../../domain/device/core/views.ts';
import { viewDue, type ScheduleDraft } from '../../domain/device/times/schedules.ts';
import type { PageRequest } from '../../domain/pagination.ts';
import { invalidInput, notFound, unwrap, type Outcome } from '../../domain/refusal.ts';
import type { DueView, RunView, ScheduleBody, ScheduleView } from '../../protocol/http/times.ts';
import { sceneCommandSchema } from '../../protocol/control.ts';
import { weekdays } from '../../protocol/vocabulary.ts';
import type { RemoteDevice } from '../../objects/calls/stubs.ts';
import { askDevice, askDeviceAs, decideAs } from './device-access.ts';

const graces = { waiting: 60, momentary: 10 };
/** 7:00 is everybody's time: what a thousand schedules add to the commands of others is measured by B8. */
const jitterIfRecurring = 120;

/** What `caller` asks of the schedules of one device. */
export function schedulesOf(context: ServiceContext, caller: Actor, deviceId: string) {
  const actor = actorOf(caller);
  const manage = 'manageSchedules';
  const read = <T>(ask: (device: RemoteDevice) => Promise<Outcome<T>>, ifInactive: () => T) =>
    askDeviceAs<T>(context, actor, deviceId, { action: 'readSchedules', ask, ifInactive });
  const listAll = (device: RemoteDevice): Promise<Outcome<ScheduleView[]>> => device.listSchedules(actor);
  const change = (scheduleId: string, what: 'pause' | 'resume' | 'remove') =>
    decideAs(context, deviceId, manage, { kind: 'schedule_changed', actor, scheduleId, change: what });
  return {
    async list(page: PageRequest) {
      return pageOf(await read(listAll, () => []), page);
    },
    async read(scheduleId: string) {
      const schedule = (await read(listAll, () => [])).find((other) => other.scheduleId === scheduleId);
      if (schedule === undefined) throw notFound('schedule', scheduleId);
      return schedule;
    },
    put(body: ScheduleBody, scheduleId?: string) {
      const isNew = scheduleId === undefined;
      const facts = { scheduleId: scheduleId ?? createId('', 16), draft: draftOf(body), isNew };
      return decideAs(context, deviceId, manage, { kind: 'schedule_put', actor, ...facts });
    },
    change,
    async remove(scheduleId: string) {
      await change(scheduleId, 'remove');
      return { scheduleId };
    },
    run(scheduleId: string) {
      const ask = (device: RemoteDevice) => device.decide({ kind: 'schedule_run', actor, scheduleId });
      return askDeviceAs<RunView>(context, actor, deviceId, { action: manage, repeat: 'once', ask });
    },
    async listNext(count: number) {
      const ask = (device: RemoteDevice): Promise<Outcome<DueView[]>> => device.listNext(actor, count);
      return { list: await read(ask, () => []) };
    },
    /** Of a schedule that is not made. */
    async preview(body: ScheduleBody, count: number) {
      await askDevice<null>(context, deviceId, (device) => device.allows(actor, manage));
      const draft = draftOf(body);
      const list: DueView[] = [];
      for (let due = nextDue(draft, Date.now()); due !== null && list.length < count;) {
        list.push(viewDue(due));
        due = nextDue(draft, due.dueAtMs);
      }
      return { list };
    },
    listRuns(page: PageRequest) {
      const none = () => ({ list: [], total: 0, dropped: 0, ...page });
      return read<RunPage>((device) => device.listRuns(actor, page), none);
    },
    async endLease() {
      await decideAs(context, deviceId, 'control', { kind: 'lease_ended', actor });
      return { deviceId };
    },
  };
}

function draftOf({ command, ...body }: ScheduleBody): ScheduleDraft {
  const { at, days, zone, from, until, except } = body;
  const scene = sceneCommandSchema.safeParse(command);
  const params = scene.success ? scene.data : unwrap(parseControl(command));
  const mayWait = mayRepeat(params);
  const { graceSeconds = mayWait ? graces.waiting : graces.momentary } = body;
  if (!mayWait && graceSeconds > graces.momentary)
    throw invalidInput('graceSeconds', `must be at most ${graces.momentary}`);
  const isSingle = isOnce(at);
  if (zone === null ? !isSingle || isLocal(at) : !isZone(zone)) {
    throw invalidInput('zone', 'must be the name of a time zone, such as Europe/Berlin');
  }
  if (isSingle && (days !== null || from !== null || until !== null || except.length > 0)) {
    throw invalidInput('at', 'runs once: without days, from, until and except');
  }
  const { jitterSeconds = isSingle ? 0 : jitterIfRecurring } = body;
  const ownDays = isSingle ? null : weekdays.filter((day) => days === null || days.includes(day));
  return { ...body, command: params, days: ownDays, graceSeconds, jitterSeconds };
}
