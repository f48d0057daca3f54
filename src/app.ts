// Middleware order and routers. No rule of the product lives here.
import { cors } from 'hono/cors';
import { readConfig } from './config.ts';
import { onError, onNotFound } from './http/on-error.ts';
import { assumeJson, limitBody } from './http/request-body.ts';
import { createRouter } from './http/router.ts';
import { bridgeRoutes } from './routes/bridge.ts';
import { brokerHookRoutes } from './routes/broker-hooks.ts';
import { deviceRoutes } from './routes/devices.ts';
import { relayRoutes } from './routes/relay.ts';
import { userRoutes } from './routes/users.ts';
import { apiKeyRoutes } from './routes/api-keys.ts';
import { productRoutes } from './routes/products.ts';
import { healthRoutes } from './routes/health.ts';

export function createApp() {
  const app = createRouter();
  app.onError(onError);
  app.notFound(onNotFound);

  app.use(async (c, next) => {
    c.set('config', readConfig(c.env));
    await next();
  });

  // Machines of ours, before the limits that are meant for callers.
  app.route('/bridge', bridgeRoutes);
  app.route('/hooks', brokerHookRoutes);
  app.route('/mqtt', relayRoutes);
  app.route('/health', healthRoutes);

  app.use('/api/*', cors({ origin: (origin, c) => (readConfig(c.env as Env).corsOrigins.includes(origin) ? origin : null) }));
  app.use('/api/*', limitBody, assumeJson);
  app.route('/api/v1/users/api-keys', apiKeyRoutes);
  app.route('/api/v1/users', userRoutes);
  app.route('/api/v1/products', productRoutes);
  app.route('/api/v1/devices', deviceRoutes);
  return app;
}
