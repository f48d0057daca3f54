// Schedules of a device, their runs, and the end of a lease over HTTP (docs/times.md): parse, one service call, answer.
import { signedInFor } from '../../http/authenticate.ts';
import { limitRate } from '../../http/client-address.ts';
import { answer, deviceErrors, responsesOf } from '../../http/envelope.ts';
import { createRouter, jsonBody, routesAbout } from '../../http/router.ts';
import { deviceIdParamSchema, pageQuerySchema } from '../../protocol/http/devices.ts';
import { deletedDeviceSchema } from '../../protocol/http/devices.ts';
import * as schemas from '../../protocol/http/times.ts';
import * as times from '../../services/devices/times.ts';

const route = routesAbout('Schedules');
const mayRead = signedInFor('readSchedules');
const mayManage = signedInFor('manageSchedules');
const mayControl = signedInFor('control');

const commandErrors = [
  'no_control_params',
  'invalid_control_params',
  'device_not_activated',
  'device_disabled',
] as const;

const pathOfSchedule = '/{deviceId}/schedules/{scheduleId}';

export const deviceTimesRoutes = createRouter()
  .openapi(
    route('get', '/{deviceId}/schedules', {
      summary: 'List the schedules of a device',
      description: 'Those that have ended stay in the list until the next is made.',
      ...mayRead,
      request: { params: deviceIdParamSchema, query: pageQuerySchema },
      responses: responsesOf(schemas.schedulePageSchema, ...deviceErrors),
    }),
    (c) =>
      answer(c, times.pageSchedules(c.var.context, c.var.caller, c.req.valid('param').deviceId, c.req.valid('query'))),
  )
  .openapi(
    route('post', '/{deviceId}/schedules', {
      summary: 'Make a schedule',
      description:
        'It gives a command at times that recur, at most 32 of a device, or once, at most 8. The command is given by who ' +
        'made, replaced or resumed the schedule last, whose right is checked at each run. A new owner begins without schedules.',
      ...mayManage,
      request: { params: deviceIdParamSchema, body: jsonBody(schemas.scheduleBodySchema) },
      responses: responsesOf(schemas.scheduleSchema, ...deviceErrors, ...commandErrors, 'too_many_schedules'),
    }),
    (c) =>
      answer(c, times.putSchedule(c.var.context, c.var.caller, c.req.valid('param').deviceId, c.req.valid('json'))),
  )
  .openapi(
    route('get', '/{deviceId}/schedules/next', {
      summary: 'List the next due times of all schedules of a device',
      ...mayRead,
      request: { params: deviceIdParamSchema, query: schemas.nextQuerySchema },
      responses: responsesOf(schemas.nextRunsSchema, ...deviceErrors),
    }),
    (c) => {
      const { deviceId } = c.req.valid('param');
      return answer(c, times.listNextRuns(c.var.context, c.var.caller, deviceId, c.req.valid('query').count));
    },
  )
  .openapi(
    route('post', '/{deviceId}/schedules/next', {
      summary: 'List the next due times that a schedule would have',
      description: 'Makes nothing.',
      ...mayManage,
      request: {
        params: deviceIdParamSchema,
        query: schemas.nextQuerySchema,
        body: jsonBody(schemas.scheduleBodySchema),
      },
      responses: responsesOf(schemas.dueTimesSchema, ...deviceErrors, 'no_control_params', 'invalid_control_params'),
    }),
    (c) => {
      const { deviceId } = c.req.valid('param');
      const { count } = c.req.valid('query');
      return answer(c, times.previewSchedule(c.var.context, c.var.caller, deviceId, c.req.valid('json'), count));
    },
  )
  .openapi(
    route('get', pathOfSchedule, {
      summary: 'Read a schedule',
      ...mayRead,
      request: { params: schemas.scheduleParamSchema },
      responses: responsesOf(schemas.scheduleSchema, ...deviceErrors, 'not_found'),
    }),
    (c) => {
      const { deviceId, scheduleId } = c.req.valid('param');
      return answer(c, times.readSchedule(c.var.context, c.var.caller, deviceId, scheduleId));
    },
  )
  .openapi(
    route('put', pathOfSchedule, {
      summary: 'Replace a schedule',
      ...mayManage,
      request: { params: schemas.scheduleParamSchema, body: jsonBody(schemas.scheduleBodySchema) },
      responses: responsesOf(
        schemas.scheduleSchema,
        ...deviceErrors,
        ...commandErrors,
        'too_many_schedules',
        'not_found',
      ),
    }),
    (c) => {
      const { deviceId, scheduleId } = c.req.valid('param');
      return answer(c, times.putSchedule(c.var.context, c.var.caller, deviceId, c.req.valid('json'), scheduleId));
    },
  )
  .openapi(
    route('delete', pathOfSchedule, {
      summary: 'Remove a schedule',
      description: 'Its runs stay. A command that it gave goes on.',
      ...mayManage,
      request: { params: schemas.scheduleParamSchema },
      responses: responsesOf(schemas.removedScheduleSchema, ...deviceErrors, 'not_found'),
    }),
    (c) => {
      const { deviceId, scheduleId } = c.req.valid('param');
      return answer(c, times.removeSchedule(c.var.context, c.var.caller, deviceId, scheduleId));
    },
  )
  .openapi(
    route('post', `${pathOfSchedule}/pause`, {
      summary: 'Pause a schedule',
      description: 'Its due times are skipped.',
      ...mayManage,
      request: { params: schemas.scheduleParamSchema },
      responses: responsesOf(schemas.scheduleSchema, ...deviceErrors, 'not_found'),
    }),
    (c) => {
      const { deviceId, scheduleId } = c.req.valid('param');
      return answer(c, times.changeSchedule(c.var.context, c.var.caller, deviceId, scheduleId, 'pause'));
    },
  )
  .openapi(
    route('post', `${pathOfSchedule}/resume`, {
      summary: 'Resume a schedule',
      ...mayManage,
      request: { params: schemas.scheduleParamSchema },
      responses: responsesOf(schemas.scheduleSchema, ...deviceErrors, 'not_found'),
    }),
    (c) => {
      const { deviceId, scheduleId } = c.req.valid('param');
      return answer(c, times.changeSchedule(c.var.context, c.var.caller, deviceId, scheduleId, 'resume'));
    },
  )
  .openapi(
    route('post', `${pathOfSchedule}/run`, {
      summary: 'Run a schedule now',
      description: 'Once, beside its due times, and even if it is paused. Read `runs` for its outcome.',
      ...mayManage,
      middleware: [mayManage.middleware, limitRate('CONTROL_LIMIT')] as const,
      request: { params: schemas.scheduleParamSchema },
      responses: responsesOf(
        schemas.runSchema,
        ...deviceErrors,
        'not_found',
        'device_not_activated',
        'device_disabled',
        'too_many_requests',
      ),
    }),
    (c) => {
      const { deviceId, scheduleId } = c.req.valid('param');
      return answer(c, times.runSchedule(c.var.context, c.var.caller, deviceId, scheduleId));
    },
  )
  .openapi(
    route('get', '/{deviceId}/runs', {
      summary: 'List the last 200 runs of a device’s schedules, newest first',
      description: 'Each due time is there once. Open ones come first, as `running`.',
      ...mayRead,
      request: { params: deviceIdParamSchema, query: pageQuerySchema },
      responses: responsesOf(schemas.runPageSchema, ...deviceErrors),
    }),
    (c) => answer(c, times.pageRuns(c.var.context, c.var.caller, c.req.valid('param').deviceId, c.req.valid('query'))),
  )
  .openapi(
    route('delete', '/{deviceId}/lease', {
      summary: 'End the lease of a device',
      description: 'The device stays as it is: the command at the end of the lease is not sent, or not again.',
      ...mayControl,
      request: { params: deviceIdParamSchema },
      responses: responsesOf(deletedDeviceSchema, ...deviceErrors, 'not_found'),
    }),
    (c) => answer(c, times.endLease(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  );
