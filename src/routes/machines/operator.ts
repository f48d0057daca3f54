// What `npm run operator` and a Prometheus call with an operator secret. Not for people, and not for applications.
import { answer, answerRefusal } from '../../http/envelope.ts';
import { readBody, createRouter, validJson } from '../../http/router.ts';
import { requireSecret } from '../../http/secret-header.ts';
import { accountNameSchema, accountSliceSchema, signUpSchema, sliceSchema } from '../../protocol/operator.ts';
import { renderMetrics } from '../../services/operations/metrics.ts';
import * as operator from '../../services/operations/operator.ts';
import { devicesPerSlice } from '../../services/operations/device-slices.ts';
import { reconcileSlice } from '../../services/operations/reconciliation.ts';

export const operatorRoutes = createRouter();

operatorRoutes.use(requireSecret('operatorSecrets'), readBody({ name: 'requestBodyBytes', max: 4096 }));

operatorRoutes.get('/metrics', async (c) =>
  c.text(await renderMetrics(c.var.context), 200, { 'Content-Type': 'text/plain; version=0.0.4; charset=utf-8' }),
);

operatorRoutes.post('/sign-up', validJson(signUpSchema, answerRefusal), async (c) => {
  const { open } = c.req.valid('json');
  await operator.openSignUp(c.var.context, open);
  return answer(c, { open });
});

operatorRoutes.post('/accounts/reset-password', validJson(accountNameSchema, answerRefusal), (c) =>
  answer(c, operator.issueResetFor(c.var.context, c.req.valid('json').name)),
);

for (const [path, act] of Object.entries({
  '/accounts/disable': operator.disableAccount,
  '/accounts/enable': operator.enableAccount,
  '/accounts/delete': operator.deleteAccount,
})) {
  operatorRoutes.post(path, validJson(accountSliceSchema, answerRefusal), (c) => {
    const { name, cursor } = c.req.valid('json');
    return answer(c, act(c.var.context, name, cursor));
  });
}

operatorRoutes.post('/find', validJson(accountNameSchema, answerRefusal), (c) =>
  answer(c, operator.findNamed(c.var.context, c.req.valid('json').name)),
);

operatorRoutes.post('/reconcile', validJson(sliceSchema, answerRefusal), (c) =>
  answer(c, reconcileSlice(c.var.context, c.req.valid('json').cursor, devicesPerSlice)),
);

operatorRoutes.post('/push-credentials', validJson(sliceSchema, answerRefusal), (c) =>
  answer(c, operator.pushCredentials(c.var.context, c.req.valid('json').cursor)),
);
