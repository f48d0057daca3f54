// What the MQTT gateway tells the Worker when it opens a device's WebSocket. The Worker believes it only with one of
// `GATEWAY_SECRETS` as bearer token.

/** The network address of the device, which the Worker cannot see behind a gateway. */
export const deviceAddressHeader = 'Latchwork-Device-Address';
export const mqttSubprotocol = 'mqtt';
