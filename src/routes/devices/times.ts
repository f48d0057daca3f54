// Schedules of a device, their runs, and the end of a lease over HTTP (docs/times.md): parse, one service call, answer.
import type { Context } from 'hono';
import { signedInFor } from '../../http/authenticate.ts';
import { limitedBy } from '../../http/client-address.ts';
import { answer, commandProblems, declaring, deviceErrors } from '../../http/envelope.ts';
import { createRouter, jsonBody, paged, routesAbout, type AppEnv } from '../../http/router.ts';
import { deletedDeviceSchema } from '../../protocol/http/devices.ts';
import * as schemas from '../../protocol/http/times.ts';
import { schedulesOf } from '../../services/devices/times.ts';

const route = routesAbout('Schedules');
const manage = signedInFor('manageSchedules');
const mayRead = declaring(signedInFor('readSchedules'), ...deviceErrors);
const mayManage = declaring(manage, ...deviceErrors);
const mayRun = declaring(limitedBy('CONTROL_LIMIT', manage), ...deviceErrors);
const mayControl = declaring(signedInFor('control'), ...deviceErrors);

const next = { query: schemas.nextQuerySchema };
const body = jsonBody(schemas.scheduleBodySchema);

const stateErrors = ['device_not_activated', 'device_disabled'] as const;
const putErrors = [...commandProblems, ...stateErrors, 'too_many_schedules'] as const;
const runErrors = [...stateErrors, 'device_restarting', 'not_found'] as const;
const path = '/{deviceId}/schedules';

const of = (c: Context<AppEnv>) => schedulesOf(c.var.context, c.var.caller, c.req.param('deviceId') ?? '');

export const deviceTimesRoutes = createRouter()
  .openapi(route('get', path, paged(mayRead('List the schedules of a device', schemas.schedulePageSchema))), (c) =>
    answer(c, of(c).list(c.req.valid('query'))),
  )
  .openapi(
    route('post', path, {
      ...mayManage('Make a schedule', schemas.scheduleSchema, ...putErrors),
      request: { body },
      description:
        'It gives a command at times that recur (32 of a device at most), or once (8). The user who made, replaced or resumed it ' +
        'last gives its commands, and has to have the right at each run. A new owner begins without schedules.',
    }),
    (c) => answer(c, of(c).put(c.req.valid('json'))),
  )
  .openapi(
    route('get', `${path}/next`, { ...mayRead('List the next due times', schemas.nextRunsSchema), request: next }),
    (c) => answer(c, of(c).listNext(c.req.valid('query').count)),
  )
  .openapi(
    route('post', `${path}/next`, {
      ...mayManage('Preview a schedule', schemas.nextRunsSchema, ...commandProblems),
      request: { ...next, body },
      description: 'Lists the due times that it would have, and makes nothing.',
    }),
    (c) => answer(c, of(c).preview(c.req.valid('json'), c.req.valid('query').count)),
  )
  .openapi(route('get', `${path}/{scheduleId}`, mayRead('Read a schedule', schemas.scheduleSchema, 'not_found')), (c) =>
    answer(c, of(c).read(c.req.valid('param').scheduleId)),
  )
  .openapi(
    route('put', `${path}/{scheduleId}`, {
      ...mayManage('Replace a schedule', schemas.scheduleSchema, 'not_found', ...putErrors),
      request: { body },
    }),
    (c) => answer(c, of(c).put(c.req.valid('json'), c.req.valid('param').scheduleId)),
  )
  .openapi(
    route('delete', `${path}/{scheduleId}`, {
      ...mayManage('Remove a schedule', schemas.removedScheduleSchema, 'not_found'),
      description: 'Its runs stay. A command that it gave goes on.',
    }),
    (c) => answer(c, of(c).remove(c.req.valid('param').scheduleId)),
  )
  .openapi(
    route('post', `${path}/{scheduleId}/pause`, {
      ...mayManage('Pause a schedule: its due times are skipped', schemas.scheduleSchema, 'not_found'),
    }),
    (c) => answer(c, of(c).change(c.req.valid('param').scheduleId, 'pause')),
  )
  .openapi(
    route('post', `${path}/{scheduleId}/resume`, mayManage('Resume a schedule', schemas.scheduleSchema, 'not_found')),
    (c) => answer(c, of(c).change(c.req.valid('param').scheduleId, 'resume')),
  )
  .openapi(
    route('post', `${path}/{scheduleId}/run`, {
      ...mayRun('Run a schedule now', schemas.runSchema, ...runErrors),
      description: 'Once, beside its due times, and even if it is paused. Read `runs` for its outcome.',
    }),
    (c) => answer(c, of(c).run(c.req.valid('param').scheduleId)),
  )
  .openapi(
    route('get', '/{deviceId}/runs', {
      ...paged(mayRead('List the last 200 runs of a device’s schedules, newest first', schemas.runPageSchema)),
      description: 'Each due time is there once. Open ones come first, as `running`.',
    }),
    (c) => answer(c, of(c).listRuns(c.req.valid('query'))),
  )
  .openapi(
    route('delete', '/{deviceId}/lease', {
      ...mayControl('End the lease of a device', deletedDeviceSchema, 'not_found'),
      description: 'The device stays as it is: the command at the end of the lease is not sent, or not again.',
    }),
    (c) => answer(c, of(c).endLease()),
  );
