// Commands to a device (contract 4.3, decision: control), its witness, and check-ins at `/w/{token}`, over HTTP: parse, one service
// call, answer.
import type { Context } from 'hono';
import { signedInFor } from '../../http/authenticate.ts';
import { answer, commandErrors, declaring, deviceErrors } from '../../http/envelope.ts';
import { limitedBy } from '../../http/client-address.ts';
import { type AppEnv, jsonBody, createRouter, routesAbout, paged } from '../../http/router.ts';
import * as schemas from '../../protocol/http/commands.ts';
import { deletedDeviceSchema } from '../../protocol/http/devices.ts';
import * as witnessSchemas from '../../protocol/http/witness.ts';
import { cancelCommand, controlDevice, pageCommands, readCommand } from '../../services/devices/control.ts';
import { checkIn, witnessOf } from '../../services/devices/witness.ts';

const route = routesAbout('Commands');
const aboutWitness = routesAbout('Witness');
const maySend = declaring(limitedBy('CONTROL_LIMIT', signedInFor('control')), ...commandErrors, 'broker_unavailable');
const mayControl = declaring(signedInFor('control'), ...deviceErrors);
const mayRead = declaring(signedInFor('readCommands'), ...deviceErrors);
const mayFollow = declaring(signedInFor('readCommands'), 'unauthorized', 'forbidden', 'device_not_found', 'not_found');
const mayReadWitness = declaring(signedInFor('readReports'), ...deviceErrors, 'not_found');
const mayManageWitness = declaring(signedInFor('manageWitness'), ...deviceErrors, 'device_not_activated');
const witnessPath = '/{deviceId}/witness';

const witness = (c: Context<AppEnv>) => witnessOf(c.var.context, c.var.caller, c.req.param('deviceId') ?? '');

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
  )
  .openapi(
    aboutWitness('get', witnessPath, mayReadWitness('Read the witness of a device', witnessSchemas.witnessSchema)),
    (c) => answer(c, witness(c).read()),
  )
  .openapi(
    aboutWitness('put', witnessPath, {
      ...mayManageWitness(
        'Set what sees whether a press worked',
        witnessSchemas.setWitnessSchema,
        'too_many_witnesses',
        'not_found',
      ),
      request: { body: jsonBody(witnessSchemas.witnessBodySchema) },
      description:
        'Each command then ends as `witnessed` or `not_witnessed`, by what is seen after it was published. A witness acts on nothing else.',
    }),
    (c) => answer(c, witness(c).set(c.req.valid('json'))),
  )
  .openapi(
    aboutWitness('delete', witnessPath, mayManageWitness('Remove the witness of a device', deletedDeviceSchema)),
    (c) => answer(c, witness(c).remove()),
  );

/** No GET: previews of links must not check in. */
export const checkInRoutes = createRouter();
checkInRoutes.post('/:token', async (c) => {
  await checkIn(c.var.context, c.req.param('token'));
  return c.body(null, 204);
});
