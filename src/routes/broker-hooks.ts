// What brokers call to ask who may log in and use which topic, and to report sessions that began or ended. One adapter
// a vendor, each in its own file of broker-hooks/; the policy is services/messaging-auth.ts.
import { createRouter } from '../http/router.ts';
import { requireSecret } from '../http/secret-header.ts';
import { emqxHookRoutes } from './broker-hooks/emqx.ts';
import { mosquittoGoAuthHookRoutes } from './broker-hooks/mosquitto-go-auth.ts';
import { rabbitmqHookRoutes } from './broker-hooks/rabbitmq.ts';
import { readFields } from './broker-hooks/read-fields.ts';
import { vernemqHookRoutes } from './broker-hooks/vernemq.ts';

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
