// Status, events and properties of a device (contract 2.6, 4.3): parse, one service call, answer.
import { createRoute } from '@hono/zod-openapi';
import { authenticate } from '../http/authenticate.ts';
import { answer, dataAnswer, errorAnswers } from '../http/envelope.ts';
import { createRouter } from '../http/router.ts';
import { byUserOrKey } from '../http/security-schemes.ts';
import { contextOf } from '../http/service-context.ts';
import {
  deviceEventPageSchema,
  deviceIdParamSchema,
  devicePropertiesSchema,
  pageQuerySchema,
  statusViewSchema,
} from '../protocol/http-devices.ts';
import { pageEvents, readProperties, readStatus } from '../services/device-views.ts';

const signedIn = { tags: ['Devices'], security: byUserOrKey, middleware: authenticate('user-or-key') };

const statusRoute = createRoute({
  method: 'get',
  path: '/{deviceId}/status',
  summary: 'Read what is true of a device now',
  ...signedIn,
  request: { params: deviceIdParamSchema },
  responses: { ...dataAnswer(statusViewSchema), ...errorAnswers('unauthorized', 'forbidden', 'device_not_found') },
});

const eventsRoute = createRoute({
  method: 'get',
  path: '/{deviceId}/events',
  summary: 'List when a device came and went, and its refused logins, newest first',
  description:
    'The last hundred, each with its reason. Changes that were not announced because the device was back within the ' +
    'grace of its product are listed as well. Refused logins are one event for each reason and hour.',
  ...signedIn,
  request: { params: deviceIdParamSchema, query: pageQuerySchema },
  responses: {
    ...dataAnswer(deviceEventPageSchema),
    ...errorAnswers('invalid_request', 'unauthorized', 'forbidden', 'device_not_found'),
  },
});

const propertiesRoute = createRoute({
  method: 'get',
  path: '/{deviceId}/properties',
  summary: 'Read what a device reported last',
  ...signedIn,
  request: { params: deviceIdParamSchema },
  responses: {
    ...dataAnswer(devicePropertiesSchema),
    ...errorAnswers('unauthorized', 'forbidden', 'device_not_found'),
  },
});

export const deviceViewRoutes = createRouter()
  .openapi(statusRoute, async (c) =>
    answer(c, await readStatus(contextOf(c), c.var.caller.userId, c.req.valid('param').deviceId)),
  )
  .openapi(eventsRoute, async (c) => {
    const { deviceId } = c.req.valid('param');
    return answer(c, await pageEvents(contextOf(c), c.var.caller.userId, deviceId, c.req.valid('query')));
  })
  .openapi(propertiesRoute, async (c) =>
    answer(c, await readProperties(contextOf(c), c.var.caller.userId, c.req.valid('param').deviceId)),
  );
