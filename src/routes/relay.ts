// The relay's address, `{ws_url}/mqtt` (contract 6): frames of text. Any origin; a client authenticates on the socket. No
// sub-protocol is required.
import { readClientAddress } from '../http/client-address.ts';
import { limitRate } from '../http/rate-limit.ts';
import { createRouter, requireUpgrade } from '../http/router.ts';
import { openRelay } from '../services/sockets/open-sockets.ts';

export const relayRoutes = createRouter();

relayRoutes.get('/', limitRate('RELAY_LIMIT'), requireUpgrade, (c) =>
  openRelay(c.var.context, c.req.raw, readClientAddress(c)),
);
