// Commands to a device over HTTP (contract 4.3, decision: control): parse, one service call, answer.
import { createRoute } from '@hono/zod-openapi';
import { signedInFor } from '../../http/authenticate.ts';
import { answer, deviceErrors, responsesOf } from '../../http/envelope.ts';
import { limitRate } from '../../http/rate-limit.ts';
import { jsonBody } from '../../http/request-body.ts';
import { createRouter } from '../../http/router.ts';
import {
  commandPageSchema,
  commandParamSchema,
  commandReceiptSchema,
  commandSchema,
  controlBodySchema,
  controlExamples,
  controlHeadersSchema,
  controlQuerySchema,
} from '../../protocol/http/commands.ts';
import { deviceIdParamSchema, pageQuerySchema } from '../../protocol/http/devices.ts';
import { cancelCommand, controlDevice, pageCommands, readCommand } from '../../services/devices/control.ts';

const tags = ['Commands'];
const mayControl = signedInFor('control');

const controlRoute = createRoute({
  method: 'post',
  path: '/{deviceId}/control',
  summary: 'Send a command to a device',
  description:
    '`command_sent` means that the broker has it; `broker_unavailable`, that it will not be delivered later. A command ' +
    'is published once and expires after 10 s, unless the caller asks with `ttl` to keep it for a device that is away. ' +
    'Nothing is ever retained at the broker.',
  tags,
  ...mayControl,
  middleware: [mayControl.middleware, limitRate('CONTROL_LIMIT')] as const,
  request: {
    params: deviceIdParamSchema,
    query: controlQuerySchema,
    headers: controlHeadersSchema,
    body: jsonBody(controlBodySchema, { examples: controlExamples }),
  },
  responses: responsesOf(
    commandReceiptSchema,
    'invalid_request',
    'no_control_params',
    'invalid_control_params',
    'unauthorized',
    'forbidden',
    'device_not_activated',
    'device_disabled',
    'device_not_found',
    'too_many_requests',
    'broker_unavailable',
  ),
});

const listCommandsRoute = createRoute({
  method: 'get',
  path: '/{deviceId}/commands',
  summary: 'List the last hundred commands of a device, newest first',
  tags,
  ...signedInFor('readCommands'),
  request: { params: deviceIdParamSchema, query: pageQuerySchema },
  responses: responsesOf(commandPageSchema, ...deviceErrors),
});

const readCommandRoute = createRoute({
  method: 'get',
  path: '/{deviceId}/commands/{commandId}',
  summary: 'Read how far a command has come',
  tags,
  ...signedInFor('readCommands'),
  request: { params: commandParamSchema },
  responses: responsesOf(commandSchema, 'unauthorized', 'forbidden', 'device_not_found', 'not_found'),
});

const cancelCommandRoute = createRoute({
  method: 'delete',
  path: '/{deviceId}/commands/{commandId}',
  summary: 'Cancel a command that waits for its device',
  description: 'What was published to a device that is there cannot be taken back: 400, with the state it is in.',
  tags,
  ...mayControl,
  request: { params: commandParamSchema },
  responses: responsesOf(commandSchema, ...deviceErrors, 'not_found'),
});

export const deviceCommandRoutes = createRouter()
  .openapi(controlRoute, async (c) => {
    const { deviceId } = c.req.valid('param');
    const { wait, ttl } = c.req.valid('query');
    const idempotencyKey = c.req.valid('header')['idempotency-key'];
    const options = { waitSeconds: wait, ttlSeconds: ttl, idempotencyKey };
    return answer(c, await controlDevice(c.var.context, c.var.caller, deviceId, c.req.valid('json'), options));
  })
  .openapi(listCommandsRoute, async (c) => {
    const { deviceId } = c.req.valid('param');
    return answer(c, await pageCommands(c.var.context, c.var.caller, deviceId, c.req.valid('query')));
  })
  .openapi(readCommandRoute, async (c) => {
    const { deviceId, commandId } = c.req.valid('param');
    return answer(c, await readCommand(c.var.context, c.var.caller, deviceId, commandId));
  })
  .openapi(cancelCommandRoute, async (c) => {
    const { deviceId, commandId } = c.req.valid('param');
    return answer(c, await cancelCommand(c.var.context, c.var.caller, deviceId, commandId));
  });
