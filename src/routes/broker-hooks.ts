// What brokers call to ask who may log in and use which topic, and to report who came and went. One adapter a vendor,
// each in its own file of broker-hooks/; the policy is services/messaging-auth.ts.
import { requireSecret } from '../http/secret-header.ts';
import { createRouter } from '../http/router.ts';
import { emqxHookRoutes } from './broker-hooks/emqx.ts';
import { mosquittoGoAuthHookRoutes } from './broker-hooks/mosquitto-go-auth.ts';
import { rabbitmqHookRoutes } from './broker-hooks/rabbitmq.ts';
import { vernemqHookRoutes } from './broker-hooks/vernemq.ts';

export const brokerHookRoutes = createRouter();

brokerHookRoutes.use(requireSecret('brokerHookSecrets'));

for (const [vendor, routes] of [
  ['emqx', emqxHookRoutes],
  ['rabbitmq', rabbitmqHookRoutes],
  ['mosquitto-go-auth', mosquittoGoAuthHookRoutes],
  ['vernemq', vernemqHookRoutes],
] as const) {
  brokerHookRoutes.route(`/${vendor}`, routes);
  // For brokers that can send no header: the secret in the path, taken out by `requireSecret`.
  brokerHookRoutes.route(`/${vendor}/s/:secret`, routes);
}
