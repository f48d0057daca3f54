// Commands to a device over HTTP (contract 4.3, decision: control): parse, one service call, answer.
import { signedInFor } from '../../http/authenticate.ts';
import { answer, commandErrors, declaring, deviceErrors } from '../../http/envelope.ts';
import { limitedBy } from '../../http/client-address.ts';
import { jsonBody, createRouter, routesAbout, paged } from '../../http/router.ts';
import * as schemas from '../../protocol/http/commands.ts';
import { cancelCommand, controlDevice, pageCommands, readCommand } from '../../services/devices/control.ts';

const route = routesAbout('Commands');
const maySend = declaring(limitedBy('CONTROL_LIMIT', signedInFor('control')), ...commandErrors, 'broker_unavailable');
const mayControl = declaring(signedInFor('control'), ...deviceErrors);
const mayRead = declaring(signedInFor('readCommands'), ...deviceErrors);
const mayFollow = declaring(signedInFor('readCommands'), 'unauthorized', 'forbidden', 'device_not_found', 'not_found');

export const deviceCommandRoutes = createRouter()
  .openapi(
    route('post', '/{deviceId}/control', {
      ...maySend('Send a command to a device', schemas.controlAnswerSchema, 'state_unknown'),
      description:
        '`command_sent` means that the broker has it; `broker_unavailable`, that it will not be delivered later. A command ' +
        'is published once and expires after 10 s, unless the caller asks with `ttl` to keep it for a device that is away. ' +
        'Nothing is ever retained at the broker. With a `lease`, a `toggle` with `position` or an `angle` is taken back: `then` is ' +
        'sent after so many seconds, and again until a report confirms it, a newer command is sent, or a hand moves the device. `ensure` presses an appliance only if its witness has just ' +
        'seen that it is otherwise; else `not_needed`, or `state_unknown`.',
      request: {
        query: schemas.controlQuerySchema,
        headers: schemas.controlHeadersSchema,
        body: jsonBody(schemas.fullControlSchema, { examples: schemas.controlExamples }),
      },
    }),
    (c) => {
      const { deviceId } = c.req.valid('param');
      const { wait, until, ttl } = c.req.valid('query');
      const idempotencyKey = c.req.valid('header')['idempotency-key'];
      const options = { waitSeconds: wait, until, ttlSeconds: ttl, idempotencyKey };
      return answer(c, controlDevice(c.var.context, c.var.caller, deviceId, c.req.valid('json'), options));
    },
  )
  .openapi(
    route('get', '/{deviceId}/commands', {
      ...paged(mayRead('List the last hundred commands of a device, newest first', schemas.commandPageSchema)),
    }),
    (c) => answer(c, pageCommands(c.var.context, c.var.caller, c.req.valid('param').deviceId, c.req.valid('query'))),
  )
  .openapi(
    route(
      'get',
      '/{deviceId}/commands/{commandId}',
      mayFollow('Read how far a command has come', schemas.commandSchema),
    ),
    (c) => answer(c, readCommand(c.var.context, c.var.caller, c.req.valid('param'))),
  )
  .openapi(
    route('delete', '/{deviceId}/commands/{commandId}', {
      ...mayControl('Cancel a command that waits for its device', schemas.commandSchema, 'not_found'),
      description: 'What was published to a device that is there cannot be taken back: 400, with the state it is in.',
    }),
    (c) => answer(c, cancelCommand(c.var.context, c.var.caller, c.req.valid('param'))),
  );
