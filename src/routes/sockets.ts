// WebSockets of any origin: the relay's, `{ws_url}/mqtt` (contract 6), a home's, `{ws_url}/mqtt/home`, and a device's own connection
// to its object, `{ws_url}/mqtt/{deviceId}`. All authenticate on the socket: the relay by frames of text, the others by their CONNECT.
import { limitRate } from '../http/client-address.ts';
import { createRouter, requireUpgrade } from '../http/router.ts';
import { openDevice, openHome, openRelay } from '../services/sockets/open-sockets.ts';

export const socketRoutes = createRouter();

socketRoutes.get('/', limitRate('RELAY_LIMIT'), requireUpgrade, (c) => openRelay(c.var.context, c.req.raw));

socketRoutes.get('/home', limitRate('DIRECT_LIMIT'), requireUpgrade, (c) => openHome(c.var.context, c.req.raw));

socketRoutes.get('/:deviceId', limitRate('DIRECT_LIMIT'), requireUpgrade, (c) =>
  openDevice(c.var.context, c.req.raw, c.req.param('deviceId')),
);
