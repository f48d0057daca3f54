// Schedules of a device, their runs, and the end of a lease over HTTP (docs/times.md): parse, one service call, answer.
import type { RouteConfig, z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { signedInFor } from '../../http/authenticate.ts';
import { limitRate } from '../../http/client-address.ts';
import { answer, deviceErrors, responsesOf } from '../../http/envelope.ts';
import { createRouter, jsonBody, routesAbout, type AppEnv, type Caller } from '../../http/router.ts';
import type { ErrorMessage } from '../../protocol/error-status.ts';
import { deletedDeviceSchema, deviceIdParamSchema, pageQuerySchema } from '../../protocol/http/devices.ts';
import * as schemas from '../../protocol/http/times.ts';
import { schedulesOf } from '../../services/devices/times.ts';

const route = routesAbout('Schedules');
const mayRead = signedInFor('readSchedules');
const mayManage = signedInFor('manageSchedules');
const mayControl = signedInFor('control');

const ofDevice = { params: deviceIdParamSchema };
const ofSchedule = { params: schemas.scheduleParamSchema };
const page = { ...ofDevice, query: pageQuerySchema };
const next = { ...ofDevice, query: schemas.nextQuerySchema };
const body = jsonBody(schemas.scheduleBodySchema);

const paramErrors = ['no_control_params', 'invalid_control_params'] as const;
const stateErrors = ['device_not_activated', 'device_disabled'] as const;
const putErrors = [...paramErrors, ...stateErrors, 'too_many_schedules'] as const;
const runErrors = [...stateErrors, 'not_found', 'too_many_requests'] as const;
const path = '/{deviceId}/schedules';

type Asking = Context<AppEnv & { Variables: { caller: Caller } }>;
const of = (c: Asking) => schedulesOf(c.var.context, c.var.caller, c.req.param('deviceId') ?? '');

export const deviceTimesRoutes = createRouter()
  .openapi(
    route('get', path, about('List the schedules of a device', mayRead, page, schemas.schedulePageSchema)),
    (c) => answer(c, of(c).list(c.req.valid('query'))),
  )
  .openapi(
    route('post', path, {
      ...about('Make a schedule', mayManage, { ...ofDevice, body }, schemas.scheduleSchema, ...putErrors),
      description:
        'It gives a command at times that recur (32 of a device at most), or once (8). The user who made, replaced or resumed it ' +
        'last gives its commands, and has to have the right at each run. A new owner begins without schedules.',
    }),
    (c) => answer(c, of(c).put(c.req.valid('json'))),
  )
  .openapi(route('get', `${path}/next`, about('List the next due times', mayRead, next, schemas.nextRunsSchema)), (c) =>
    answer(c, of(c).listNext(c.req.valid('query').count)),
  )
  .openapi(
    route('post', `${path}/next`, {
      ...about('Preview a schedule', mayManage, { ...next, body }, schemas.nextRunsSchema, ...paramErrors),
      description: 'Lists the due times that it would have, and makes nothing.',
    }),
    (c) => answer(c, of(c).preview(c.req.valid('json'), c.req.valid('query').count)),
  )
  .openapi(route('get', `${path}/{scheduleId}`, answering('Read a schedule', mayRead)), (c) =>
    answer(c, of(c).read(c.req.valid('param').scheduleId)),
  )
  .openapi(
    route('put', `${path}/{scheduleId}`, {
      ...answering('Replace a schedule', mayManage, ...putErrors),
      request: { ...ofSchedule, body },
    }),
    (c) => answer(c, of(c).put(c.req.valid('json'), c.req.valid('param').scheduleId)),
  )
  .openapi(
    route('delete', `${path}/{scheduleId}`, {
      ...about('Remove a schedule', mayManage, ofSchedule, schemas.removedScheduleSchema, 'not_found'),
      description: 'Its runs stay. A command that it gave goes on.',
    }),
    (c) => answer(c, of(c).remove(c.req.valid('param').scheduleId)),
  )
  .openapi(
    route('post', `${path}/{scheduleId}/pause`, answering('Pause a schedule: its due times are skipped', mayManage)),
    (c) => answer(c, of(c).change(c.req.valid('param').scheduleId, 'pause')),
  )
  .openapi(route('post', `${path}/{scheduleId}/resume`, answering('Resume a schedule', mayManage)), (c) =>
    answer(c, of(c).change(c.req.valid('param').scheduleId, 'resume')),
  )
  .openapi(
    route('post', `${path}/{scheduleId}/run`, {
      ...about('Run a schedule now', mayManage, ofSchedule, schemas.runSchema, ...runErrors),
      description: 'Once, beside its due times, and even if it is paused. Read `runs` for its outcome.',
      middleware: [mayManage.middleware, limitRate('CONTROL_LIMIT')] as const,
    }),
    (c) => answer(c, of(c).run(c.req.valid('param').scheduleId)),
  )
  .openapi(
    route('get', '/{deviceId}/runs', {
      ...about('List the last 200 runs of a device’s schedules, newest first', mayRead, page, schemas.runPageSchema),
      description: 'Each due time is there once. Open ones come first, as `running`.',
    }),
    (c) => answer(c, of(c).listRuns(c.req.valid('query'))),
  )
  .openapi(
    route('delete', '/{deviceId}/lease', {
      ...about('End the lease of a device', mayControl, ofDevice, deletedDeviceSchema, 'not_found'),
      description: 'The device stays as it is: the command at the end of the lease is not sent, or not again.',
    }),
    (c) => answer(c, of(c).endLease()),
  );

function answering(summary: string, access: typeof mayRead, ...errors: ErrorMessage[]) {
  return about(summary, access, ofSchedule, schemas.scheduleSchema, 'not_found', ...errors);
}

function about<const Request extends RouteConfig['request'], Data extends z.ZodType>(
  summary: string,
  access: typeof mayRead,
  request: Request,
  data: Data,
  ...errors: ErrorMessage[]
) {
  return { summary, ...access, request, responses: responsesOf(data, ...deviceErrors, ...errors) };
}
