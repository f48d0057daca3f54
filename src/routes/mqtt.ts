// The address of a device's own connection, `{ws_url}/mqtt/{deviceId}`: MQTT over WebSocket, straight to the device's object.
// Any origin; who the device is, its CONNECT says.
import { readClientAddress } from '../http/client-address.ts';
import { limitRate } from '../http/rate-limit.ts';
import { createRouter, requireUpgrade } from '../http/router.ts';
import { openDevice } from '../services/sockets/open-sockets.ts';

export const mqttRoutes = createRouter();

mqttRoutes.get('/:deviceId', limitRate('EDGE_LIMIT'), requireUpgrade, (c) =>
  openDevice(c.var.context, c.req.raw, c.req.param('deviceId'), readClientAddress(c)),
);
