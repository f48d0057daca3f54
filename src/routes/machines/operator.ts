// What `npm run operator` and a Prometheus call with an operator secret. Not for people, and not for applications.
import type { z } from 'zod';
import type { ServiceContext } from '../../context.ts';
import { answer, answerRefusal } from '../../http/envelope.ts';
import { readBody, createRouter, validJson } from '../../http/router.ts';
import { requireSecret } from '../../http/secret-header.ts';
import * as schemas from '../../protocol/operator.ts';
import { renderMetrics } from '../../services/operations/metrics.ts';
import * as moving from '../../services/operations/moving.ts';
import * as operator from '../../services/operations/operator.ts';
import { reconcileSlice } from '../../services/operations/reconciliation.ts';

export const operatorRoutes = createRouter();

operatorRoutes.use(
  requireSecret('operatorSecrets'),
  readBody({ name: 'requestBodyBytes', max: schemas.maxImportBytes }),
);

operatorRoutes.get('/metrics', async (c) =>
  c.text(await renderMetrics(c.var.context), 200, { 'Content-Type': 'text/plain; version=0.0.4; charset=utf-8' }),
);

/** A route that hands the body to one use case, and answers what that answers. */
function post<T extends z.ZodType>(
  path: string,
  schema: T,
  act: (context: ServiceContext, body: z.output<T>) => Promise<unknown>,
): void {
  operatorRoutes.post(path, validJson(schema, answerRefusal), (c) =>
    answer(c, act(c.var.context, c.req.valid('json'))),
  );
}

post('/sign-up', schemas.signUpSchema, operator.openSignUp);
post('/accounts/reset-password', schemas.accountNameSchema, operator.issueResetFor);
post('/accounts/disable', schemas.accountSliceSchema, operator.disableAccount);
post('/accounts/enable', schemas.accountSliceSchema, operator.enableAccount);
post('/accounts/delete', schemas.accountSliceSchema, operator.deleteAccount);
post('/find', schemas.accountNameSchema, operator.findNamed);
post('/reconcile', schemas.sliceSchema, reconcileSlice);
post('/export', schemas.exportSchema, moving.exportPage);
post('/import', schemas.importSchema, moving.importPage);
post('/push-credentials', schemas.sliceSchema, operator.pushCredentials);
