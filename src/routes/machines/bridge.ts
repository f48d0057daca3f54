// What our own machines call with the bridge secret: batches up, the WebSocket on which a bridge receives what to publish,
// and the operator's reconciliation. Not for people.
import { answer, answerRefusal } from '../../http/envelope.ts';
import { readBody, createRouter, requireUpgrade, validJson } from '../../http/router.ts';
import { requireSecret } from '../../http/secret-header.ts';
import { maxBatchBytes, reconcileSchema, uplinkBatchSchema } from '../../protocol/bridge.ts';
import { devicesPerSlice } from '../../services/operations/device-slices.ts';
import { reconcileSlice } from '../../services/operations/reconciliation.ts';
import { openBridgeLink } from '../../services/sockets/open-sockets.ts';
import { takeBatch } from '../../services/broker/uplink.ts';

export const bridgeRoutes = createRouter();

bridgeRoutes.use(requireSecret('bridgeSecrets'));

bridgeRoutes.post(
  '/uplink',
  readBody({ name: 'uplinkBatchBytes', max: maxBatchBytes }),
  validJson(uplinkBatchSchema, answerRefusal),
  async (c) => answer(c, { results: await takeBatch(c.var.context, c.req.valid('json')) }),
);

bridgeRoutes.post(
  '/reconcile',
  readBody({ name: 'requestBodyBytes', max: 1024 }),
  validJson(reconcileSchema, answerRefusal),
  (c) => answer(c, reconcileSlice(c.var.context, c.req.valid('json').cursor, devicesPerSlice)),
);

bridgeRoutes.get('/link', requireUpgrade, (c) => openBridgeLink(c.var.context, c.req.raw));
