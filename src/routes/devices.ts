// Devices over HTTP (interface 4.3): parse, one service call, answer.
import { createRoute } from '@hono/zod-openapi';
import { authenticate } from '../http/authenticate.ts';
import { answer, dataAnswer, errorAnswers } from '../http/envelope.ts';
import { limitRate } from '../http/rate-limit.ts';
import { jsonBody } from '../http/request-body.ts';
import { createRouter } from '../http/router.ts';
import { byUserOrKey } from '../http/security-schemes.ts';
import { contextOf } from '../http/service-context.ts';
import {
  activateBodySchema,
  activationSchema,
  commandReceiptSchema,
  controlBodySchema,
  deletedDeviceSchema,
  deviceIdParamSchema,
  devicePageSchema,
  deviceSchema,
  listDevicesQuerySchema,
  statusViewSchema,
} from '../protocol/http-devices.ts';
import { activateDevice } from '../services/activation.ts';
import { controlDevice, readStatus } from '../services/control.ts';
import { deleteDevice, pageDevices, readDevice } from '../services/devices.ts';

const signedIn = { tags: ['Devices'], security: byUserOrKey, middleware: authenticate('user-or-key') };

const activateRoute = createRoute({
  method: 'post',
  path: '/activate',
  tags: ['Devices'],
  summary: 'Activate a device against a product',
  description:
    'Called by the device itself. The same product key and serial again give the same device with a new secret and a ' +
    'new messaging password; earlier passwords stay valid until ten minutes after a newer one was first used.',
  middleware: limitRate('activation'),
  request: { body: jsonBody(activateBodySchema) },
  responses: {
    ...dataAnswer(activationSchema),
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
  summary: 'List your devices, newest first',
  ...signedIn,
  request: { query: listDevicesQuerySchema },
  responses: { ...dataAnswer(devicePageSchema), ...errorAnswers('invalid_request', 'unauthorized') },
});

const readRoute = createRoute({
  method: 'get',
  path: '/{deviceId}',
  summary: 'Read one device',
  ...signedIn,
  request: { params: deviceIdParamSchema },
  responses: { ...dataAnswer(deviceSchema), ...errorAnswers('unauthorized', 'forbidden', 'device_not_found') },
});

const statusRoute = createRoute({
  method: 'get',
  path: '/{deviceId}/status',
  summary: 'Read what is true of a device now',
  ...signedIn,
  request: { params: deviceIdParamSchema },
  responses: { ...dataAnswer(statusViewSchema), ...errorAnswers('unauthorized', 'forbidden', 'device_not_found') },
});

const controlRoute = createRoute({
  method: 'post',
  path: '/{deviceId}/control',
  summary: 'Send a command to a device',
  description:
    '`command_sent` means that the broker has it; `broker_unavailable`, that it will not be delivered later.',
  ...signedIn,
  middleware: [authenticate('user-or-key'), limitRate('control')] as const,
  request: { params: deviceIdParamSchema, body: jsonBody(controlBodySchema) },
  responses: {
    ...dataAnswer(commandReceiptSchema),
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
  summary: 'Delete a device',
  description: 'Its credentials end, its relay sessions are closed; the same serial activates as a new device.',
  ...signedIn,
  request: { params: deviceIdParamSchema },
  responses: {
    ...dataAnswer(deletedDeviceSchema),
    ...errorAnswers('invalid_request', 'unauthorized', 'forbidden', 'device_not_found'),
  },
});

export const deviceRoutes = createRouter()
  .openapi(activateRoute, async (c) => answer(c, await activateDevice(contextOf(c), c.req.valid('json'))))
  .openapi(listRoute, async (c) => {
    const { productKey, status, page, size } = c.req.valid('query');
    const filter = { ownerId: c.var.caller.userId, productKey, statusCode: status };
    return answer(c, await pageDevices(contextOf(c), filter, { page, size }));
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
  .openapi(deleteRoute, async (c) =>
    answer(c, await deleteDevice(contextOf(c), c.var.caller.userId, c.req.valid('param').deviceId)),
  );
