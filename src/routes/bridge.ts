// What broker-bridge calls: batches up, and the WebSocket on which it is told what to publish. Not for people.
import { answer, answerRefusal } from '../http/envelope.ts';
import { createRouter } from '../http/router.ts';
import { readText } from '../http/read-text.ts';
import { requireSecret } from '../http/secret-header.ts';
import { maxBatchBytes, uplinkBatchSchema } from '../protocol/bridge.ts';
import { openBridgeLink } from '../services/bridge-link.ts';
import { takeBatch } from '../services/uplink.ts';

export const bridgeRoutes = createRouter();

bridgeRoutes.use(requireSecret('bridgeSecrets'));

bridgeRoutes.post('/uplink', async (c) => {
  const tooLarge = () => c.json({ code: 413, message: 'invalid_request: body: too large', data: null }, 413);
  const text = await readText(c.req.raw, maxBatchBytes);
  if (text === undefined) return tooLarge();
  const batch = uplinkBatchSchema.safeParse(parse(text));
  if (!batch.success)
    return answerRefusal(c, {
      kind: 'invalid_input',
      path: 'body',
      problem: batch.error.issues[0]?.message ?? '',
    });
  return answer(c, { results: await takeBatch({ env: c.env, config: c.var.config }, batch.data) });
});

bridgeRoutes.get('/link', async (c) => {
  if (c.req.header('Upgrade')?.toLowerCase() !== 'websocket') {
    return answerRefusal(c, { kind: 'invalid_input', path: 'Upgrade', problem: 'expected a WebSocket' });
  }
  return openBridgeLink({ env: c.env, config: c.var.config }, c.req.raw);
});

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
