// mqtt.js, which only a page with a virtual switch loads: a file of its own in the bundle.
import mqtt, { type MqttClient } from 'mqtt';

// Its bundle for browsers has the default export alone.
export const connect: typeof mqtt.connect = mqtt.connect;
export type { MqttClient };
