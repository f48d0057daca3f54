// The edge's address, `{ws_url}/mqtt/{deviceId}`: MQTT over WebSocket, straight to the device's object. Any origin; who the
// device is, its CONNECT says.
import { readClientAddress } from '../http/client-address.ts';
import { limitRate } from '../http/rate-limit.ts';
import { createRouter, requireUpgrade } from '../http/router.ts';
import { openEdge } from '../services/sockets/edge-door.ts';

export const mqttRoutes = createRouter();

mqttRoutes.get('/:deviceId', limitRate('EDGE_LIMIT'), requireUpgrade, (c) =>
  openEdge(c.var.context, c.req.raw, c.req.param('deviceId'), readClientAddress(c)),
);
