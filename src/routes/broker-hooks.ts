// What hosted brokers call to ask who may log in and to report who came and went. One adapter a vendor, each in its
// own file of broker-hooks/; the policy is services/messaging-auth.ts.
import { createRouter } from '../http/router.ts';
import { emqxHookRoutes } from './broker-hooks/emqx.ts';

export const brokerHookRoutes = createRouter();

brokerHookRoutes.route('/emqx', emqxHookRoutes);
