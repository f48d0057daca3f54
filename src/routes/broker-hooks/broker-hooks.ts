// What brokers call to ask who may log in and use which topic, and to report sessions that began or ended. One adapter
// a vendor, each in its own file of broker-hooks/; the policy is services/broker/messaging-auth.ts.
import { createRouter } from '../../http/router.ts';
import { requireSecret } from '../../http/secret-header.ts';
import { emqxHookRoutes } from './emqx.ts';
import { mosquittoGoAuthHookRoutes } from './mosquitto-go-auth.ts';
import { rabbitmqHookRoutes } from './rabbitmq.ts';
import { readFields } from './read-fields.ts';
import { vernemqHookRoutes } from './vernemq.ts';

export const brokerHookRoutes = createRouter();

brokerHookRoutes.use(requireSecret('brokerHookSecrets'), readFields);

for (const [vendor, routes] of [
  ['emqx', emqxHookRoutes],
  ['rabbitmq', rabbitmqHookRoutes],
  ['mosquitto-go-auth', mosquittoGoAuthHookRoutes],
  ['vernemq', vernemqHookRoutes],
] as const) {
  brokerHookRoutes.route(`/${vendor}`, routes);
  // For brokers that can send no header: `requireSecret` reads the secret from the path.
  brokerHookRoutes.route(`/${vendor}/s/:secret`, routes);
}
