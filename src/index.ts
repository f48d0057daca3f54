// Entry point: the app and the Durable Objects, nothing else.
import { createApp } from './app.ts';

export { BrokerLink } from './durable/broker-link.ts';
export { DeviceSession } from './durable/device-session.ts';
export { RelayGateway } from './durable/relay-gateway.ts';

export default createApp();
