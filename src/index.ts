// Entry point: the app, the scheduled jobs and the Durable Objects, nothing else.
import { createApp } from './app.ts';
import { runScheduledJobs } from './scheduled.ts';

export { BrokerLink } from './durable/broker-link.ts';
export { DeviceSession } from './durable/device-session.ts';
export { FleetDirectory } from './durable/fleet-directory.ts';
export { ProductPropagator } from './durable/product-propagator.ts';
export { ProjectionWriter } from './durable/projection-writer.ts';
export { RelayGateway } from './durable/relay-gateway.ts';

const app = createApp();

export default {
  fetch: app.fetch,
  scheduled: (_controller, env) => runScheduledJobs(env),
} satisfies ExportedHandler<Env>;
