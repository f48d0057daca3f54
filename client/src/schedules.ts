// Schedules of a device: makes one, looks ahead, and follows a run to its outcome. All other calls are typed members of `api`.
import type { CommandBody } from './command.ts';
import { dataOf, type Client, type Data } from './http.ts';

type Schedules = Client['devices'][':deviceId']['schedules'];
export type Schedule = Data<Schedules[':scheduleId']['$get']>;
type Sent = Parameters<Schedules['$post']>[0]['json'];
/** A body with `at`, `zone` and the rest; see the reference. */
export type ScheduleBody = Omit<Sent, 'command'> & { command: CommandBody };
export type NextRun = Data<Schedules['next']['$get']>['list'][number];
export type DueTime = Data<Schedules['next']['$post']>['list'][number];
export type Run = Data<Client['devices'][':deviceId']['runs']['$get']>['list'][number];

const lookEveryMs = 1_000;

/** @param scheduleId of the schedule that it replaces */
export function putSchedule(api: Client, deviceId: string, body: ScheduleBody, scheduleId?: string): Promise<Schedule> {
  const { schedules } = api.devices[':deviceId'];
  if (scheduleId === undefined) return dataOf(schedules.$post({ param: { deviceId }, json: body }));
  return dataOf(schedules[':scheduleId'].$put({ param: { deviceId, scheduleId }, json: body }));
}

/** When a schedule that is not made yet would run, and why not as its clock says. */
export async function previewSchedule(
  api: Client,
  deviceId: string,
  body: ScheduleBody,
  count = 5,
): Promise<DueTime[]> {
  const { next } = api.devices[':deviceId'].schedules;
  const { list } = await dataOf(next.$post({ param: { deviceId }, query: { count: String(count) }, json: body }));
  return list;
}

/** Runs a schedule now. @returns its run once it has an outcome */
export async function runSchedule(api: Client, deviceId: string, scheduleId: string): Promise<Run> {
  const { schedules, runs } = api.devices[':deviceId'];
  const begun = await dataOf(schedules[':scheduleId'].run.$post({ param: { deviceId, scheduleId } }));
  for (let run: Run = begun; ; await new Promise((resolve) => setTimeout(resolve, lookEveryMs))) {
    const { list } = await dataOf(runs.$get({ param: { deviceId }, query: { size: '100' } }));
    run = list.find(({ runId }) => runId === begun.runId) ?? run;
    if (run.outcome !== 'running') return run;
  }
}
