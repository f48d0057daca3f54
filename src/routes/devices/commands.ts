// Commands to a device over HTTP (contract 4.3, decision: control): parse, one service call, answer.
import { signedInFor } from '../../http/authenticate.ts';
import { answer, commandErrors, deviceErrors, responsesOf } from '../../http/envelope.ts';
import { limitRate } from '../../http/client-address.ts';
import { jsonBody, createRouter, routesAbout } from '../../http/router.ts';
import * as schemas from '../../protocol/http/commands.ts';
import { deviceIdParamSchema, pageQuerySchema } from '../../protocol/http/devices.ts';
import { cancelCommand, controlDevice, pageCommands, readCommand } from '../../services/devices/control.ts';

const route = routesAbout('Commands');
const mayControl = signedInFor('control');

export const deviceCommandRoutes = createRouter()
  .openapi(
    route('post', '/{deviceId}/control', {
      summary: 'Send a command to a device',
      description:
        '`command_sent` means that the broker has it; `broker_unavailable`, that it will not be delivered later. A command ' +
        'is published once and expires after 10 s, unless the caller asks with `ttl` to keep it for a device that is away. ' +
        'Nothing is ever retained at the broker. With a `lease`, a `toggle` with `position` or an `angle` is taken back: `then` is ' +
        'sent after so many seconds, and again until a report confirms it, a newer command is sent, or a hand moves the device.',
      ...mayControl,
      middleware: [mayControl.middleware, limitRate('CONTROL_LIMIT')] as const,
      request: {
        params: deviceIdParamSchema,
        query: schemas.controlQuerySchema,
        headers: schemas.controlHeadersSchema,
        body: jsonBody(schemas.controlWithLeaseSchema, { examples: schemas.controlExamples }),
      },
      responses: responsesOf(schemas.commandReceiptSchema, ...commandErrors, 'broker_unavailable'),
    }),
    (c) => {
      const { deviceId } = c.req.valid('param');
      const { wait, ttl } = c.req.valid('query');
      const idempotencyKey = c.req.valid('header')['idempotency-key'];
      const options = { waitSeconds: wait, ttlSeconds: ttl, idempotencyKey };
      return answer(c, controlDevice(c.var.context, c.var.caller, deviceId, c.req.valid('json'), options));
    },
  )
  .openapi(
    route('get', '/{deviceId}/commands', {
      summary: 'List the last hundred commands of a device, newest first',
      ...signedInFor('readCommands'),
      request: { params: deviceIdParamSchema, query: pageQuerySchema },
      responses: responsesOf(schemas.commandPageSchema, ...deviceErrors),
    }),
    (c) => answer(c, pageCommands(c.var.context, c.var.caller, c.req.valid('param').deviceId, c.req.valid('query'))),
  )
  .openapi(
    route('get', '/{deviceId}/commands/{commandId}', {
      summary: 'Read how far a command has come',
      ...signedInFor('readCommands'),
      request: { params: schemas.commandParamSchema },
      responses: responsesOf(schemas.commandSchema, 'unauthorized', 'forbidden', 'device_not_found', 'not_found'),
    }),
    (c) => answer(c, readCommand(c.var.context, c.var.caller, c.req.valid('param'))),
  )
  .openapi(
    route('delete', '/{deviceId}/commands/{commandId}', {
      summary: 'Cancel a command that waits for its device',
      description: 'What was published to a device that is there cannot be taken back: 400, with the state it is in.',
      ...mayControl,
      request: { params: schemas.commandParamSchema },
      responses: responsesOf(schemas.commandSchema, ...deviceErrors, 'not_found'),
    }),
    (c) => answer(c, cancelCommand(c.var.context, c.var.caller, c.req.valid('param'))),
  );
