// The relay's address, `{ws_url}/mqtt` (interface 6). Any origin, no sub-protocol: who a client is, it says on the
// socket.
import { readClientAddress } from '../http/client-address.ts';
import { answerRefusal } from '../http/envelope.ts';
import { limitRate } from '../http/rate-limit.ts';
import { createRouter } from '../http/router.ts';
import { openRelay } from '../services/relay.ts';

export const relayRoutes = createRouter();

relayRoutes.get('/', limitRate('relay'), async (c) => {
  if (c.req.header('Upgrade')?.toLowerCase() !== 'websocket') {
    return answerRefusal(c, { kind: 'invalid_input', path: 'Upgrade', problem: 'expected a WebSocket' });
  }
  return openRelay({ env: c.env, config: c.var.config }, c.req.raw, readClientAddress(c));
});
