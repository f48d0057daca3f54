// Devices over HTTP (contract 2.6, 4.3), except their commands: parse, one service call, answer.
import { createRoute } from '@hono/zod-openapi';
import { signedInFor } from '../../http/authenticate.ts';
import { readClientAddress } from '../../http/client-address.ts';
import { answer, deviceErrors, responsesOf } from '../../http/envelope.ts';
import { limitRate } from '../../http/rate-limit.ts';
import { jsonBody } from '../../http/request-body.ts';
import { createRouter } from '../../http/router.ts';
import {
  activateBodySchema,
  activationSchema,
  changeDeviceBodySchema,
  credentialsSchema,
  deletedDeviceSchema,
  deviceEventPageSchema,
  deviceIdParamSchema,
  devicePageSchema,
  devicePropertiesSchema,
  deviceSchema,
  listDevicesQuerySchema,
  pageQuerySchema,
  statusViewSchema,
} from '../../protocol/http/devices.ts';
import { claimParamSchema } from '../../protocol/http/ownership.ts';
import { activateDevice } from '../../services/devices/activation.ts';
import { pageEvents, readProperties, readStatus } from '../../services/devices/views.ts';
import { deleteDevice } from '../../services/devices/deletion.ts';
import { changeDevice, pageDevices, readDevice, replaceCredentials } from '../../services/devices/devices.ts';

const tags = ['Devices'];

/** A view of one device. */
function viewFor(action: 'readDevice' | 'readReports') {
  return { ...signedInFor(action), request: { params: deviceIdParamSchema } };
}
const viewRefusals = ['unauthorized', 'forbidden', 'device_not_found'] as const;

const activationRefusals = [
  'invalid_request',
  'invalid_product_key',
  'product_disabled',
  'activation_not_allowed',
  'device_disabled',
  'reactivation_not_allowed',
  'too_many_devices',
  'too_many_requests',
  'broker_unavailable',
] as const;

const activateRoute = createRoute({
  method: 'post',
  path: '/activate',
  tags,
  summary: 'Activate a device against a product',
  description:
    'Called by the device itself. Activating the same product key and serial once more gives the same device with a ' +
    'new secret and a new messaging password; earlier passwords stay valid until ten minutes after a newer one was ' +
    'first used.',
  middleware: limitRate('ACTIVATION_LIMIT'),
  request: { body: jsonBody(activateBodySchema) },
  responses: responsesOf(activationSchema, ...activationRefusals),
});

const listRoute = createRoute({
  method: 'get',
  path: '/',
  tags,
  summary: 'List your own devices and those shared with you, newest first',
  description:
    'A long list is read to its end with an empty `after` first, then with `next` of each answer. With `search` it is what ' +
    'was found among the first devices that begin like that, by name.',
  ...signedInFor('readDevice'),
  request: { query: listDevicesQuerySchema },
  responses: responsesOf(devicePageSchema, 'invalid_request', 'unauthorized', 'forbidden'),
});

const readRoute = createRoute({
  method: 'get',
  path: '/{deviceId}',
  tags,
  summary: 'Read one device',
  ...viewFor('readDevice'),
  responses: responsesOf(deviceSchema, ...viewRefusals),
});

const changeRoute = createRoute({
  method: 'patch',
  path: '/{deviceId}',
  tags,
  summary: 'Rename, disable or enable a device',
  description:
    'A disabled device cannot log in, its relay sessions are closed, its messages are dropped and it takes no ' +
    'commands. Enabling it restores all of that with the credentials it has.',
  ...signedInFor('rename', 'disable'),
  request: { params: deviceIdParamSchema, body: jsonBody(changeDeviceBodySchema) },
  responses: responsesOf(deviceSchema, ...deviceErrors, 'device_not_activated'),
});

const credentialsRoute = createRoute({
  method: 'post',
  path: '/{deviceId}/credentials',
  tags,
  summary: 'Give a device a new messaging password',
  description: 'Shown this once. The old ones end at once, and with them the sessions that were opened with them.',
  ...signedInFor('replaceCredentials'),
  request: { params: deviceIdParamSchema },
  responses: responsesOf(credentialsSchema, ...deviceErrors, 'device_not_activated'),
});

const deleteRoute = createRoute({
  method: 'delete',
  path: '/{deviceId}',
  tags,
  summary: 'Delete a device',
  description: 'Its credentials end, its relay sessions are closed; the same serial activates as a new device.',
  ...signedInFor('delete'),
  request: { params: deviceIdParamSchema },
  responses: responsesOf(deletedDeviceSchema, ...deviceErrors),
});

const statusRoute = createRoute({
  method: 'get',
  path: '/{deviceId}/status',
  tags,
  summary: 'Read what is true of a device now',
  ...viewFor('readReports'),
  responses: responsesOf(statusViewSchema, ...viewRefusals),
});

const eventsRoute = createRoute({
  method: 'get',
  path: '/{deviceId}/events',
  tags,
  summary: 'List when a device came and went, and its refused logins, newest first',
  description:
    'The last hundred, each with its reason. Changes that were not announced because the device was back within the ' +
    'grace of its product are listed as well. Refused logins are one event for each reason and hour.',
  ...signedInFor('readReports'),
  request: { params: deviceIdParamSchema, query: pageQuerySchema },
  responses: responsesOf(deviceEventPageSchema, ...deviceErrors),
});

const propertiesRoute = createRoute({
  method: 'get',
  path: '/{deviceId}/properties',
  tags,
  summary: 'Read what a device reported last',
  ...viewFor('readReports'),
  responses: responsesOf(devicePropertiesSchema, ...viewRefusals),
});

export const deviceRoutes = createRouter()
  .openapi(activateRoute, async (c) =>
    answer(c, await activateDevice(c.var.context, c.req.valid('json'), { clientAddress: readClientAddress(c) })),
  )
  .openapi(listRoute, async (c) => {
    const { productKey, status, role, search, after, page, size } = c.req.valid('query');
    const filter = { productKey, statusCode: status, role, search };
    return answer(c, await pageDevices(c.var.context, c.var.caller, filter, { page, size }, after));
  })
  .openapi(readRoute, async (c) =>
    answer(c, await readDevice(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  )
  .openapi(changeRoute, async (c) => {
    const { deviceId } = c.req.valid('param');
    return answer(c, await changeDevice(c.var.context, c.var.caller, deviceId, c.req.valid('json')));
  })
  .openapi(credentialsRoute, async (c) =>
    answer(
      c,
      await replaceCredentials(c.var.context, c.var.caller, c.req.valid('param').deviceId, readClientAddress(c)),
    ),
  )
  .openapi(deleteRoute, async (c) =>
    answer(c, await deleteDevice(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  )
  .openapi(statusRoute, async (c) =>
    answer(c, await readStatus(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  )
  .openapi(eventsRoute, async (c) => {
    const { deviceId } = c.req.valid('param');
    return answer(c, await pageEvents(c.var.context, c.var.caller, deviceId, c.req.valid('query')));
  })
  .openapi(propertiesRoute, async (c) =>
    answer(c, await readProperties(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  );

const claimRoute = createRoute({
  method: 'post',
  path: '/devices/activate',
  tags,
  summary: 'Activate a device for the user of a claim token',
  description:
    "As `/api/v1/devices/activate`, which firmware reaches because its `apiUrl` ends with the token's path. A device that " +
    'nobody has claimed belongs to the user of the token from then on.',
  middleware: limitRate('ACTIVATION_LIMIT'),
  request: { params: claimParamSchema, body: jsonBody(activateBodySchema) },
  responses: responsesOf(activationSchema, 'invalid_claim_token', ...activationRefusals),
});

/** Below `/t/{token}/api/v1`. */
export const claimRoutes = createRouter().openapi(claimRoute, async (c) => {
  const origin = { clientAddress: readClientAddress(c), claimToken: c.req.valid('param').token };
  return answer(c, await activateDevice(c.var.context, c.req.valid('json'), origin));
});
