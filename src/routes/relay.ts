// The relay's address, `{ws_url}/mqtt` (contract 6), which MQTT shares: a first frame of bytes is MQTT, text is the relay's.
// Any origin; a client authenticates on the socket. No sub-protocol is required.
import { readClientAddress } from '../http/client-address.ts';
import { holdToShield } from '../pacing/rate-limits.ts';
import { createRouter, requireUpgrade } from '../http/router.ts';
import { asksForMqtt, openByFirstFrame } from '../services/sockets/first-frame.ts';
import { openRelay } from '../services/sockets/open-sockets.ts';

export const relayRoutes = createRouter();

relayRoutes.get('/', async (c, next) => {
  const shield = asksForMqtt(c.req.raw) ? 'EDGE_LIMIT' : 'RELAY_LIMIT';
  await holdToShield(c.var.context, shield, readClientAddress(c));
  await next();
});

relayRoutes.get('/', requireUpgrade, (c) => {
  const open = asksForMqtt(c.req.raw) ? openByFirstFrame : openRelay;
  return open(c.var.context, c.req.raw, readClientAddress(c));
});
