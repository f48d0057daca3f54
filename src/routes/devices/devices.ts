// Devices over HTTP (contract 2.6, 4.3), with their usage and history, except their commands: parse, one service call, answer.
import { z } from '@hono/zod-openapi';
import type { Context } from 'hono';
import { signedInFor } from '../../http/authenticate.ts';
import { limitRate } from '../../http/client-address.ts';
import { answer, callerErrors, declaring, deviceErrors, responsesOf, sessionErrors } from '../../http/envelope.ts';
import { type AppEnv, jsonBody, createRouter, routesAbout } from '../../http/router.ts';
import { answerTable, withCsv } from '../../http/table.ts';
import * as schemas from '../../protocol/http/devices.ts';
import { pathSchemas } from '../../protocol/http/paths.ts';
import * as usage from '../../protocol/http/usage.ts';
import { activateDevice } from '../../services/devices/activation.ts';
import { viewsOf } from '../../services/devices/views.ts';
import {
  deleteDevice,
  changeDevice,
  pageDevices,
  readDevice,
  replaceCredentials,
} from '../../services/devices/devices.ts';

const route = routesAbout('Devices');
const aboutUsage = routesAbout('Usage');

const viewRefusals = ['unauthorized', 'forbidden', 'device_not_found'] as const;
const mayRead = declaring(signedInFor('readDevice'), ...viewRefusals);
const mayList = declaring(signedInFor('readDevice'), ...callerErrors);
const mayReadReports = declaring(signedInFor('readReports'), ...viewRefusals);
const mayReadUsage = declaring(signedInFor('readReports'), ...sessionErrors);
const mayChange = declaring(signedInFor('rename', 'disable', 'pair'), ...sessionErrors);
const mayReplace = declaring(signedInFor('replaceCredentials'), ...sessionErrors);
const mayDelete = declaring(signedInFor('delete'), ...deviceErrors);
const mayActivate = declaring({ middleware: limitRate('ACTIVATION_LIMIT') });

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
const claimRefusals = ['invalid_claim_token', 'claim_code_required', ...activationRefusals] as const;

const views = (c: Context<AppEnv>) => viewsOf(c.var.context, c.var.caller, c.req.param('deviceId') ?? '');

export const deviceRoutes = createRouter()
  .openapi(
    route('post', '/activate', {
      ...mayActivate('Activate a device against a product', schemas.activationSchema, ...activationRefusals),
      description:
        'Called by the device itself. Activating the same product key and serial once more gives the same device with a ' +
        'new secret and a new messaging password; earlier passwords stay valid until ten minutes after a newer one was ' +
        'first used.',
      request: { body: jsonBody(schemas.activateBodySchema) },
    }),
    (c) => answer(c, activateDevice(c.var.context, c.req.valid('json'))),
  )
  .openapi(
    route('get', '/', {
      ...mayList('List your own devices and those shared with you, newest first', schemas.devicePageSchema),
      description:
        'A long list is read to its end with an empty `after` first, then with `next` of each answer. With `search` it is what ' +
        'was found among the first devices that begin like that, by name.',
      request: { query: schemas.listDevicesQuerySchema },
    }),
    (c) => answer(c, pageDevices(c.var.context, c.var.caller, c.req.valid('query'))),
  )
  .openapi(route('get', '/{deviceId}', mayRead('Read one device', schemas.deviceSchema)), (c) =>
    answer(c, readDevice(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  )
  .openapi(
    route('patch', '/{deviceId}', {
      ...mayChange('Rename, tag, disable or enable a device, let everybody activate it again', schemas.deviceSchema),
      description:
        'A disabled device cannot log in, its relay sessions are closed, its messages are dropped and it takes no ' +
        'commands. Enabling it restores all of that with the credentials it has.',
      request: { body: jsonBody(schemas.changeDeviceBodySchema) },
    }),
    (c) => answer(c, changeDevice(c.var.context, c.var.caller, c.req.valid('param').deviceId, c.req.valid('json'))),
  )
  .openapi(
    route('post', '/{deviceId}/credentials', {
      ...mayReplace('Give a device a new messaging password', schemas.credentialsSchema),
      description: 'Shown this once. The old ones end at once, and with them the sessions that were opened with them.',
    }),
    (c) => answer(c, replaceCredentials(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  )
  .openapi(
    route('delete', '/{deviceId}', {
      ...mayDelete('Delete a device', schemas.deletedDeviceSchema),
      description: 'Its credentials end, its relay sessions are closed; the same serial activates as a new device.',
    }),
    (c) => answer(c, deleteDevice(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  )
  .openapi(
    route('get', '/{deviceId}/status', mayReadReports('Read what is true of a device now', schemas.statusViewSchema)),
    (c) => answer(c, views(c).status()),
  )
  .openapi(
    route('get', '/{deviceId}/events', {
      summary: 'List when a device came and went, and its refused logins, newest first',
      description:
        'The last hundred, each with its reason. Changes that were not announced because the device was back within the ' +
        'grace of its product are listed as well. Refused logins are one event for each reason and hour. With `after` it is what ' +
        'webhooks are told, oldest first: the last 200 that a webhook of an owner or member wants.',
      ...signedInFor('readReports'),
      request: { query: schemas.eventsQuerySchema },
      responses: responsesOf(schemas.deviceEventsSchema, ...deviceErrors),
    }),
    (c) => {
      const { after, page, size } = c.req.valid('query');
      if (after !== undefined) return answer(c, views(c).eventsAfter(after, size));
      return answer(c, views(c).events({ page, size }));
    },
  )
  .openapi(
    route('get', '/{deviceId}/properties', {
      ...mayReadReports('Read what a device reported last', schemas.devicePropertiesSchema),
    }),
    (c) => answer(c, views(c).properties()),
  )
  .openapi(
    aboutUsage('get', '/{deviceId}/usage', {
      ...withCsv(mayReadUsage('Read how long a device was on, and what pressed it', usage.usageSchema)),
      description:
        'Of the last 400 days, in the time zone of its owner. What is not known is not counted as off. A command counts when it is ' +
        'known to have happened.',
      request: { query: usage.usageQuerySchema },
    }),
    (c) => answerTable(c, views(c).usage(c.req.valid('query')), usage.usageStepSchema),
  )
  .openapi(
    aboutUsage('get', '/{deviceId}/history', {
      ...withCsv(mayReadUsage('Read what a device reported of a numeric property', usage.historySchema)),
      description:
        'Quarters of 30 days, 4 days at once; hours of 365 days, 16 days at once; or 365 days. Of the first 8 numeric properties of ' +
        'a day. Reports of an unchanged value, and of the signal strength, may be missing in it, but for the first of each quarter.',
      request: { query: usage.historyQuerySchema },
    }),
    (c) => answerTable(c, views(c).history(c.req.valid('query')), usage.historyPointSchema),
  );

/** Below `/t/{token}/api/v1`. */
export const claimRoutes = createRouter().openapi(
  route('post', '/devices/activate', {
    ...mayActivate('Activate a device for the user of a claim token', schemas.activationSchema, ...claimRefusals),
    description:
      "As `/api/v1/devices/activate`, which firmware reaches because its `apiUrl` ends with the token's path. A device that " +
      'nobody has claimed belongs to the user of the token from then on.',
    request: { params: z.object({ token: pathSchemas.token }), body: jsonBody(schemas.activateBodySchema) },
  }),
  (c) => answer(c, activateDevice(c.var.context, c.req.valid('json'), c.req.valid('param').token)),
);
