// Devices over HTTP (interface 4.3): parse, one service call, answer.
import { createRoute, z } from '@hono/zod-openapi';
import { authenticate } from '../http/authenticate.ts';
import { answer, envelopeOf, errorAnswers } from '../http/envelope.ts';
import { limitRate } from '../http/rate-limit.ts';
import { createRouter } from '../http/router.ts';
import { byUserOrKey } from '../http/security-schemes.ts';
import {
  activateBodySchema,
  activationSchema,
  commandReceiptSchema,
  deletedDeviceSchema,
  deviceIdParamSchema,
  devicePageSchema,
  deviceSchema,
  listDevicesQuerySchema,
  statusViewSchema,
} from '../protocol/http-devices.ts';
import { activateDevice } from '../services/activation.ts';
import { controlDevice, readStatus } from '../services/control.ts';
import { deleteDevice, listOwnDevices, readDevice } from '../services/devices.ts';

const tags = ['Devices'];
const signedIn = { security: byUserOrKey, middleware: authenticate('user-or-key') };

const jsonAnswer = <T extends z.ZodType>(description: string, schema: T) => ({
  200: { description, content: { 'application/json': { schema: envelopeOf(schema) } } },
});

const activateRoute = createRoute({
  method: 'post',
  path: '/activate',
  tags,
  summary: 'Activate a device against a product',
  description: 'Called by the device. The same product key and serial again give the same device, with new secrets.',
  middleware: limitRate('activation'),
  request: { body: { required: true, content: { 'application/json': { schema: activateBodySchema } } } },
  responses: {
    ...jsonAnswer('Connection data, shown this once', activationSchema),
    ...errorAnswers(
      'invalid_request',
      'invalid_product_key',
      'product_disabled',
      'device_disabled',
      'too_many_requests',
    ),
  },
});

const listRoute = createRoute({
  method: 'get',
  path: '/',
  tags,
  summary: 'List your devices, newest first',
  ...signedIn,
  request: { query: listDevicesQuerySchema },
  responses: {
    ...jsonAnswer('A page of devices', devicePageSchema),
    ...errorAnswers('invalid_request', 'unauthorized'),
  },
});

const readRoute = createRoute({
  method: 'get',
  path: '/{deviceId}',
  tags,
  summary: 'Read one device',
  ...signedIn,
  request: { params: deviceIdParamSchema },
  responses: {
    ...jsonAnswer('The device', deviceSchema),
    ...errorAnswers('unauthorized', 'forbidden', 'device_not_found'),
  },
});

const statusRoute = createRoute({
  method: 'get',
  path: '/{deviceId}/status',
  tags,
  summary: 'Read what is true of a device now',
  ...signedIn,
  request: { params: deviceIdParamSchema },
  responses: {
    ...jsonAnswer('The status view', statusViewSchema),
    ...errorAnswers('unauthorized', 'forbidden', 'device_not_found'),
  },
});

const controlRoute = createRoute({
  method: 'post',
  path: '/{deviceId}/control',
  tags,
  summary: 'Send a command to a device',
  description:
    '`command_sent` means that the broker has it; `broker_unavailable`, that it will not be delivered later.',
  security: byUserOrKey,
  middleware: [authenticate('user-or-key'), limitRate('control')],
  request: {
    params: deviceIdParamSchema,
    // Read by the service, which tells the documented errors of a control body apart.
    body: {
      required: true,
      content: {
        'application/json': {
          schema: z.unknown().openapi('ControlRequest', {
            example: { action: 'toggle', position: 'up' },
          }),
        },
      },
    },
  },
  responses: {
    ...jsonAnswer('The broker has the command', commandReceiptSchema),
    ...errorAnswers(
      'invalid_request',
      'no_control_params',
      'invalid_control_params',
      'unauthorized',
      'forbidden',
      'device_disabled',
      'device_not_found',
      'too_many_requests',
      'broker_unavailable',
    ),
  },
});

const deleteRoute = createRoute({
  method: 'delete',
  path: '/{deviceId}',
  tags,
  summary: 'Delete a device',
  description: 'Its credentials end, its relay sessions are closed; the same serial activates as a new device.',
  ...signedIn,
  request: { params: deviceIdParamSchema },
  responses: {
    ...jsonAnswer('Deleted', deletedDeviceSchema),
    ...errorAnswers('unauthorized', 'forbidden', 'device_not_found'),
  },
});

const contextOf = (c: { env: Env; var: { config: Parameters<typeof activateDevice>[0]['config'] } }) => ({
  env: c.env,
  config: c.var.config,
});

export const deviceRoutes = createRouter()
  .openapi(activateRoute, async (c) => answer(c, await activateDevice(contextOf(c), c.req.valid('json'))))
  .openapi(listRoute, async (c) => {
    const { productKey, status, page, size } = c.req.valid('query');
    const filter = { productKey, statusCode: status };
    return answer(c, await listOwnDevices(contextOf(c), c.var.caller.userId, filter, { page, size }));
  })
  .openapi(readRoute, async (c) =>
    answer(c, await readDevice(contextOf(c), c.var.caller.userId, c.req.valid('param').deviceId)),
  )
  .openapi(statusRoute, async (c) =>
    answer(c, await readStatus(contextOf(c), c.var.caller.userId, c.req.valid('param').deviceId)),
  )
  .openapi(controlRoute, async (c) => {
    const { deviceId } = c.req.valid('param');
    return answer(c, await controlDevice(contextOf(c), c.var.caller.userId, deviceId, c.req.valid('json')));
  })
  .openapi(deleteRoute, async (c) => {
    const { deviceId } = c.req.valid('param');
    await deleteDevice(contextOf(c), c.var.caller.userId, deviceId);
    return answer(c, { deviceId });
  });
