// Schedules of a device, their runs, and the end of a lease over HTTP (docs/times.md): parse, one service call, answer.
import type { Context } from 'hono';
import { signedInFor } from '../../http/authenticate.ts';
import { limitRate } from '../../http/client-address.ts';
import { answer, deviceErrors, responsesOf } from '../../http/envelope.ts';
import { createRouter, jsonBody, routesAbout, type AppEnv, type Caller } from '../../http/router.ts';
import { deletedDeviceSchema, deviceIdParamSchema, pageQuerySchema } from '../../protocol/http/devices.ts';
import * as schemas from '../../protocol/http/times.ts';
import { schedulesOf } from '../../services/devices/times.ts';

const route = routesAbout('Schedules');
const mayRead = signedInFor('readSchedules');
const mayManage = signedInFor('manageSchedules');
const mayControl = signedInFor('control');

const page = { params: deviceIdParamSchema, query: pageQuerySchema };
const next = { params: deviceIdParamSchema, query: schemas.nextQuerySchema };
const body = jsonBody(schemas.scheduleBodySchema);
const paramErrors = ['no_control_params', 'invalid_control_params'] as const;
const controlErrors = ['device_not_activated', 'device_disabled'] as const;
const putErrors = [...deviceErrors, ...paramErrors, ...controlErrors, 'too_many_schedules'] as const;

const path = '/{deviceId}/schedules';
const about = { request: { params: schemas.scheduleParamSchema } };
const shown = { ...about, responses: responsesOf(schemas.scheduleSchema, ...deviceErrors, 'not_found') };

type Asking = Context<AppEnv & { Variables: { caller: Caller } }>;
const of = (c: Asking) => schedulesOf(c.var.context, c.var.caller, c.req.param('deviceId') ?? '');

export const deviceTimesRoutes = createRouter()
  .openapi(
    route('get', path, {
      summary: 'List the schedules of a device',
      description: 'Those that have ended stay in the list until the next is made.',
      ...mayRead,
      request: page,
      responses: responsesOf(schemas.schedulePageSchema, ...deviceErrors),
    }),
    (c) => answer(c, of(c).list(c.req.valid('query'))),
  )
  .openapi(
    route('post', path, {
      summary: 'Make a schedule',
      description:
        'It gives a command at times that recur (32 of a device at most), or once (8). The user who made, replaced or resumed it ' +
        'last gives its commands, and has to have the right at each run. A new owner begins without schedules.',
      ...mayManage,
      request: { params: deviceIdParamSchema, body },
      responses: responsesOf(schemas.scheduleSchema, ...putErrors),
    }),
    (c) => answer(c, of(c).put(c.req.valid('json'))),
  )
  .openapi(
    route('get', `${path}/next`, {
      summary: 'List the next due times of all schedules of a device',
      ...mayRead,
      request: next,
      responses: responsesOf(schemas.nextRunsSchema, ...deviceErrors),
    }),
    (c) => answer(c, of(c).listNext(c.req.valid('query').count)),
  )
  .openapi(
    route('post', `${path}/next`, {
      summary: 'List the next due times that a schedule would have',
      description: 'Makes nothing.',
      ...mayManage,
      request: { ...next, body },
      responses: responsesOf(schemas.dueTimesSchema, ...deviceErrors, ...paramErrors),
    }),
    (c) => answer(c, of(c).preview(c.req.valid('json'), c.req.valid('query').count)),
  )
  .openapi(route('get', `${path}/{scheduleId}`, { summary: 'Read a schedule', ...mayRead, ...shown }), (c) =>
    answer(c, of(c).read(c.req.valid('param').scheduleId)),
  )
  .openapi(
    route('put', `${path}/{scheduleId}`, {
      summary: 'Replace a schedule',
      ...mayManage,
      request: { ...about.request, body },
      responses: responsesOf(schemas.scheduleSchema, ...putErrors, 'not_found'),
    }),
    (c) => answer(c, of(c).put(c.req.valid('json'), c.req.valid('param').scheduleId)),
  )
  .openapi(
    route('delete', `${path}/{scheduleId}`, {
      summary: 'Remove a schedule',
      description: 'Its runs stay. A command that it gave goes on.',
      ...mayManage,
      ...about,
      responses: responsesOf(schemas.removedScheduleSchema, ...deviceErrors, 'not_found'),
    }),
    (c) => answer(c, of(c).remove(c.req.valid('param').scheduleId)),
  )
  .openapi(
    route('post', `${path}/{scheduleId}/pause`, {
      summary: 'Pause a schedule: its due times are skipped',
      ...mayManage,
      ...shown,
    }),
    (c) => answer(c, of(c).change(c.req.valid('param').scheduleId, 'pause')),
  )
  .openapi(
    route('post', `${path}/{scheduleId}/resume`, {
      summary: 'Resume a schedule',
      ...mayManage,
      ...shown,
    }),
    (c) => answer(c, of(c).change(c.req.valid('param').scheduleId, 'resume')),
  )
  .openapi(
    route('post', `${path}/{scheduleId}/run`, {
      summary: 'Run a schedule now',
      description: 'Once, beside its due times, and even if it is paused. Read `runs` for its outcome.',
      ...mayManage,
      middleware: [mayManage.middleware, limitRate('CONTROL_LIMIT')] as const,
      ...about,
      responses: responsesOf(schemas.runSchema, ...deviceErrors, ...controlErrors, 'not_found', 'too_many_requests'),
    }),
    (c) => answer(c, of(c).run(c.req.valid('param').scheduleId)),
  )
  .openapi(
    route('get', '/{deviceId}/runs', {
      summary: 'List the last 200 runs of a device’s schedules, newest first',
      description: 'Each due time is there once. Open ones come first, as `running`.',
      ...mayRead,
      request: page,
      responses: responsesOf(schemas.runPageSchema, ...deviceErrors),
    }),
    (c) => answer(c, of(c).listRuns(c.req.valid('query'))),
  )
  .openapi(
    route('delete', '/{deviceId}/lease', {
      summary: 'End the lease of a device',
      description: 'The device stays as it is: the command at the end of the lease is not sent, or not again.',
      ...mayControl,
      request: { params: deviceIdParamSchema },
      responses: responsesOf(deletedDeviceSchema, ...deviceErrors, 'not_found'),
    }),
    (c) => answer(c, of(c).endLease()),
  );
