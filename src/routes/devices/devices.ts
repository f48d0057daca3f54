// Devices over HTTP (contract 2.6, 4.3), except their commands: parse, one service call, answer.
import { signedInFor } from '../../http/authenticate.ts';
import { limitRate } from '../../http/client-address.ts';
import { answer, callerErrors, deviceErrors, responsesOf, sessionErrors } from '../../http/envelope.ts';
import { jsonBody, createRouter, routesAbout } from '../../http/router.ts';
import * as schemas from '../../protocol/http/devices.ts';
import { claimParamSchema } from '../../protocol/http/ownership.ts';
import { activateDevice } from '../../services/devices/activation.ts';
import { pageEvents, readProperties, readStatus } from '../../services/devices/views.ts';
import { deleteDevice } from '../../services/devices/deletion.ts';
import { changeDevice, pageDevices, readDevice, replaceCredentials } from '../../services/devices/devices.ts';

const route = routesAbout('Devices');

function viewFor(action: 'readDevice' | 'readReports') {
  return { ...signedInFor(action), request: { params: schemas.deviceIdParamSchema } };
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

export const deviceRoutes = createRouter()
  .openapi(
    route('post', '/activate', {
      summary: 'Activate a device against a product',
      description:
        'Called by the device itself. Activating the same product key and serial once more gives the same device with a ' +
        'new secret and a new messaging password; earlier passwords stay valid until ten minutes after a newer one was ' +
        'first used.',
      middleware: limitRate('ACTIVATION_LIMIT'),
      request: { body: jsonBody(schemas.activateBodySchema) },
      responses: responsesOf(schemas.activationSchema, ...activationRefusals),
    }),
    (c) => answer(c, activateDevice(c.var.context, c.req.valid('json'))),
  )
  .openapi(
    route('get', '/', {
      summary: 'List your own devices and those shared with you, newest first',
      description:
        'A long list is read to its end with an empty `after` first, then with `next` of each answer. With `search` it is what ' +
        'was found among the first devices that begin like that, by name.',
      ...signedInFor('readDevice'),
      request: { query: schemas.listDevicesQuerySchema },
      responses: responsesOf(schemas.devicePageSchema, ...callerErrors),
    }),
    (c) => {
      const { productKey, status, role, search, after, page, size } = c.req.valid('query');
      const filter = { productKey, statusCode: status, role, search };
      return answer(c, pageDevices(c.var.context, c.var.caller, filter, { page, size }, after));
    },
  )
  .openapi(
    route('get', '/{deviceId}', {
      summary: 'Read one device',
      ...viewFor('readDevice'),
      responses: responsesOf(schemas.deviceSchema, ...viewRefusals),
    }),
    (c) => answer(c, readDevice(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  )
  .openapi(
    route('patch', '/{deviceId}', {
      summary: 'Rename, disable or enable a device, let everybody activate it again',
      description:
        'A disabled device cannot log in, its relay sessions are closed, its messages are dropped and it takes no ' +
        'commands. Enabling it restores all of that with the credentials it has.',
      ...signedInFor('rename', 'disable', 'pair'),
      request: { params: schemas.deviceIdParamSchema, body: jsonBody(schemas.changeDeviceBodySchema) },
      responses: responsesOf(schemas.deviceSchema, ...sessionErrors),
    }),
    (c) => answer(c, changeDevice(c.var.context, c.var.caller, c.req.valid('param').deviceId, c.req.valid('json'))),
  )
  .openapi(
    route('post', '/{deviceId}/credentials', {
      summary: 'Give a device a new messaging password',
      description: 'Shown this once. The old ones end at once, and with them the sessions that were opened with them.',
      ...signedInFor('replaceCredentials'),
      request: { params: schemas.deviceIdParamSchema },
      responses: responsesOf(schemas.credentialsSchema, ...sessionErrors),
    }),
    (c) => answer(c, replaceCredentials(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  )
  .openapi(
    route('delete', '/{deviceId}', {
      summary: 'Delete a device',
      description: 'Its credentials end, its relay sessions are closed; the same serial activates as a new device.',
      ...signedInFor('delete'),
      request: { params: schemas.deviceIdParamSchema },
      responses: responsesOf(schemas.deletedDeviceSchema, ...deviceErrors),
    }),
    (c) => answer(c, deleteDevice(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  )
  .openapi(
    route('get', '/{deviceId}/status', {
      summary: 'Read what is true of a device now',
      ...viewFor('readReports'),
      responses: responsesOf(schemas.statusViewSchema, ...viewRefusals),
    }),
    (c) => answer(c, readStatus(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  )
  .openapi(
    route('get', '/{deviceId}/events', {
      summary: 'List when a device came and went, and its refused logins, newest first',
      description:
        'The last hundred, each with its reason. Changes that were not announced because the device was back within the ' +
        'grace of its product are listed as well. Refused logins are one event for each reason and hour.',
      ...signedInFor('readReports'),
      request: { params: schemas.deviceIdParamSchema, query: schemas.pageQuerySchema },
      responses: responsesOf(schemas.deviceEventPageSchema, ...deviceErrors),
    }),
    (c) => answer(c, pageEvents(c.var.context, c.var.caller, c.req.valid('param').deviceId, c.req.valid('query'))),
  )
  .openapi(
    route('get', '/{deviceId}/properties', {
      summary: 'Read what a device reported last',
      ...viewFor('readReports'),
      responses: responsesOf(schemas.devicePropertiesSchema, ...viewRefusals),
    }),
    (c) => answer(c, readProperties(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  );

/** Below `/t/{token}/api/v1`. */
export const claimRoutes = createRouter().openapi(
  route('post', '/devices/activate', {
    summary: 'Activate a device for the user of a claim token',
    description:
      "As `/api/v1/devices/activate`, which firmware reaches because its `apiUrl` ends with the token's path. A device that " +
      'nobody has claimed belongs to the user of the token from then on.',
    middleware: limitRate('ACTIVATION_LIMIT'),
    request: { params: claimParamSchema, body: jsonBody(schemas.activateBodySchema) },
    responses: responsesOf(
      schemas.activationSchema,
      'invalid_claim_token',
      'claim_code_required',
      ...activationRefusals,
    ),
  }),
  (c) => answer(c, activateDevice(c.var.context, c.req.valid('json'), c.req.valid('param').token)),
);
