// Device records and activation over HTTP (contract 4.3): parse, one service call, answer.
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
  changeDeviceBodySchema,
  credentialsSchema,
  deletedDeviceSchema,
  deviceIdParamSchema,
  devicePageSchema,
  deviceSchema,
  listDevicesQuerySchema,
} from '../protocol/http-devices.ts';
import { activateDevice } from '../services/activation.ts';
import { changeDevice, deleteDevice, pageDevices, readDevice, replaceCredentials } from '../services/devices.ts';

const signedIn = { tags: ['Devices'], security: byUserOrKey, middleware: authenticate('user-or-key') };

const activateRoute = createRoute({
  method: 'post',
  path: '/activate',
  tags: ['Devices'],
  summary: 'Activate a device against a product',
  description:
    'Called by the device itself. Activating the same product key and serial once more gives the same device with a ' +
    'new secret and a new messaging password; earlier passwords stay valid until ten minutes after a newer one was ' +
    'first used.',
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

const changeRoute = createRoute({
  method: 'patch',
  path: '/{deviceId}',
  summary: 'Rename, disable or enable a device',
  description:
    'A disabled device cannot log in, its relay sessions are closed, its messages are dropped and it takes no ' +
    'commands. Enabling it restores all of that with the credentials it has.',
  ...signedIn,
  request: { params: deviceIdParamSchema, body: jsonBody(changeDeviceBodySchema) },
  responses: {
    ...dataAnswer(deviceSchema),
    ...errorAnswers('invalid_request', 'unauthorized', 'forbidden', 'device_not_found'),
  },
});

const credentialsRoute = createRoute({
  method: 'post',
  path: '/{deviceId}/credentials',
  summary: 'Give a device a new messaging password',
  description: 'Shown this once. The old ones end at once, and with them the sessions that were opened with them.',
  ...signedIn,
  request: { params: deviceIdParamSchema },
  responses: {
    ...dataAnswer(credentialsSchema),
    ...errorAnswers('invalid_request', 'unauthorized', 'forbidden', 'device_not_found'),
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
  .openapi(changeRoute, async (c) => {
    const { deviceId } = c.req.valid('param');
    return answer(c, await changeDevice(contextOf(c), c.var.caller.userId, deviceId, c.req.valid('json')));
  })
  .openapi(credentialsRoute, async (c) =>
    answer(c, await replaceCredentials(contextOf(c), c.var.caller.userId, c.req.valid('param').deviceId)),
  )
  .openapi(deleteRoute, async (c) =>
    answer(c, await deleteDevice(contextOf(c), c.var.caller.userId, c.req.valid('param').deviceId)),
  );
