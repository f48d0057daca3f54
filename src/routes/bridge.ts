// What broker-bridge calls: batches up, and the WebSocket on which it receives what to publish. Not for people.
import { answer, answerRefusal } from '../http/envelope.ts';
import { readBody } from '../http/request-body.ts';
import { createRouter, requireUpgrade, validJson } from '../http/router.ts';
import { requireSecret } from '../http/secret-header.ts';
import { maxBatchBytes, uplinkBatchSchema } from '../protocol/bridge.ts';
import { openBridgeLink } from '../services/sockets.ts';
import { takeBatch } from '../services/uplink.ts';

export const bridgeRoutes = createRouter();

bridgeRoutes.use(requireSecret('bridgeSecrets'));

bridgeRoutes.post(
  '/uplink',
  readBody({ name: 'uplink_batch_bytes', max: maxBatchBytes }),
  validJson(uplinkBatchSchema, answerRefusal),
  async (c) => answer(c, { results: await takeBatch(c.var.context, c.req.valid('json')) }),
);

bridgeRoutes.get('/link', requireUpgrade, (c) => openBridgeLink(c.var.context, c.req.raw));
