// Usage and history of a device over HTTP, as JSON or CSV: parse, one service call, answer.
import type { Context } from 'hono';
import { signedInFor } from '../../http/authenticate.ts';
import { declaring, sessionErrors } from '../../http/envelope.ts';
import { createRouter, routesAbout, type AppEnv } from '../../http/router.ts';
import { answerTable, withCsv } from '../../http/table.ts';
import * as schemas from '../../protocol/http/usage.ts';
import { viewsOf } from '../../services/devices/views.ts';

const route = routesAbout('Usage');
const mayRead = declaring(signedInFor('readReports'), ...sessionErrors);

const of = (c: Context<AppEnv>) => viewsOf(c.var.context, c.var.caller, c.req.param('deviceId') ?? '');

export const deviceUsageRoutes = createRouter()
  .openapi(
    route('get', '/{deviceId}/usage', {
      ...withCsv(mayRead('Read how long a device was on, and what pressed it', schemas.usageSchema)),
      description:
        'Of the last 400 days, in the time zone of its owner. What is not known is not counted as off. A command counts when it is ' +
        'known to have happened.',
      request: { query: schemas.usageQuerySchema },
    }),
    (c) => answerTable(c, of(c).usage(c.req.valid('query')), schemas.usageStepSchema),
  )
  .openapi(
    route('get', '/{deviceId}/history', {
      ...withCsv(mayRead('Read what a device reported of a numeric property', schemas.historySchema)),
      description:
        'Quarters of 30 days, 4 days at once; hours of 365 days, 16 days at once; or 365 days. Of the first 8 numeric properties of ' +
        'a day. Reports of an unchanged value, and of the signal strength, may be missing in it, but for the first of each quarter.',
      request: { query: schemas.historyQuerySchema },
    }),
    (c) => answerTable(c, of(c).history(c.req.valid('query')), schemas.historyPointSchema),
  );
