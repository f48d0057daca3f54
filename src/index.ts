// Entry point: the app, the scheduled jobs and the Durable Objects, nothing else.
import { createApp } from './app.ts';
import { runScheduledJobs } from './scheduled.ts';

export { BrokerLink } from './objects/broker-link/broker-link.ts';
export { BulkRun } from './objects/bulk-run.ts';
export { Campaign } from './objects/campaign.ts';
export { DeviceSession } from './objects/device/device-session.ts';
export { FleetDirectory } from './objects/fleet-directory.ts';
export { HomeBroker } from './objects/home/home-broker.ts';
export { ProductPropagator } from './objects/product-propagator.ts';
export { ProjectionWriter } from './objects/projection-writer.ts';
export { RelayGateway } from './objects/relay/relay-gateway.ts';
export { UserInbox } from './objects/inbox/user-inbox.ts';
export { WebhookEndpoint } from './objects/webhooks/webhook-endpoint.ts';

const app = createApp();

export default {
  fetch: app.fetch,
  scheduled: (_controller, env) => runScheduledJobs(env),
} satisfies ExportedHandler<Env>;
