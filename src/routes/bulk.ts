// Commands for many devices over HTTP: parse, one service call, answer.
import type { Context } from 'hono';
import { signedInFor } from '../http/authenticate.ts';
import { limitedBy } from '../http/client-address.ts';
import { answer, callerErrors, commandProblems, declaring } from '../http/envelope.ts';
import { createRouter, jsonBody, routesAbout, type AppEnv } from '../http/router.ts';
import * as schemas from '../protocol/http/bulk.ts';
import { bulkOf } from '../services/bulk.ts';

const route = routesAbout('Bulk');
const mayStart = declaring(limitedBy('BULK_LIMIT', signedInFor('control')), ...callerErrors, 'not_found');
const mayRead = declaring(signedInFor('readCommands'), ...callerErrors, 'not_found');
const mayChange = declaring(signedInFor('control'), ...callerErrors, 'not_found');

const of = (c: Context<AppEnv>) => bulkOf(c.var.context, c.var.caller);

export const bulkRoutes = createRouter()
  .openapi(
    route('post', '/commands', {
      ...mayStart('Send a command to many devices', schemas.bulkReceiptSchema, ...commandProblems),
      description:
        'To up to 500 devices. Answers at once; `GET /bulk/{bulkId}` tells the outcome of each device for 7 days. Each device decides ' +
        'whether you may control it, and gets the command once, however often the request is repeated with its `idempotencyKey`.',
      request: { body: jsonBody(schemas.bulkBodySchema) },
    }),
    (c) => answer(c, of(c).command(c.req.valid('json'))),
  )
  .openapi(
    route('post', '/products/{productKey}/commands', {
      ...mayStart('Send a command to your devices of a product', schemas.bulkReceiptSchema, ...commandProblems),
      description: 'To those that nobody has claimed, at most 200 in a second. It can be paused.',
      request: { body: jsonBody(schemas.fleetBodySchema) },
    }),
    (c) => answer(c, of(c).commandFleet(c.req.valid('param').productKey, c.req.valid('json'))),
  )
  .openapi(
    route('post', '/scenes/{sceneId}/run', {
      ...mayStart('Run a scene', schemas.bulkReceiptSchema),
      description: 'Answers at once; `GET /bulk/{bulkId}` tells which devices did not confirm in time.',
      request: { body: jsonBody(schemas.sceneRunSchema, { isRequired: false }) },
    }),
    (c) => answer(c, of(c).runScene(c.req.valid('param').sceneId, c.req.valid('json').idempotencyKey)),
  )
  .openapi(
    route('get', '/bulk/{bulkId}', {
      ...mayRead('Read how far a bulk run is, device by device', schemas.bulkSchema),
      request: { query: schemas.bulkQuerySchema },
    }),
    (c) => answer(c, of(c).read(c.req.valid('param').bulkId, c.req.valid('query'))),
  )
  .openapi(
    route('patch', '/bulk/{bulkId}', {
      ...mayChange('Pause a bulk run, or let it go on', schemas.changedBulkSchema),
      description: 'While it is paused no further device gets its command.',
      request: { body: jsonBody(schemas.bulkChangeSchema) },
    }),
    (c) => answer(c, of(c).pause(c.req.valid('param').bulkId, c.req.valid('json').paused)),
  );
