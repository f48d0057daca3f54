// What our own machines call with the bridge secret: batches up, and the WebSocket on which a bridge receives what to publish.
// Not for people.
import { answer, answerRefusal } from '../../http/envelope.ts';
import { readBody, createRouter, requireUpgrade, validJson } from '../../http/router.ts';
import { requireSecret } from '../../http/secret-header.ts';
import { maxBatchBytes, uplinkBatchSchema } from '../../protocol/bridge.ts';
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

bridgeRoutes.get('/link', requireUpgrade, (c) => openBridgeLink(c.var.context, c.req.raw));
