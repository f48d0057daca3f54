// WebSockets of any origin: the relay's, `{ws_url}/mqtt` (contract 6), and a device's own connection to its object,
// `{ws_url}/mqtt/{deviceId}`. Both authenticate on the socket: the relay by frames of text, a device by its CONNECT.
import { limitRate } from '../http/client-address.ts';
import { createRouter, requireUpgrade } from '../http/router.ts';
import { openDevice, openRelay } from '../services/sockets/open-sockets.ts';

export const socketRoutes = createRouter();

socketRoutes.get('/', limitRate('RELAY_LIMIT'), requireUpgrade, (c) => openRelay(c.var.context, c.req.raw));

socketRoutes.get('/:deviceId', limitRate('DIRECT_LIMIT'), requireUpgrade, (c) =>
  openDevice(c.var.context, c.req.raw, c.req.param('deviceId')),
);
