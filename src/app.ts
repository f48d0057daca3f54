// Middleware order and routers. No rule of the product lives here.
import { setAnswerHeaders } from './http/headers.ts';
import { trustGateway } from './http/client-address.ts';
import { allowOrigins, refuseCrossSite } from './http/cross-origin.ts';
import { onError, onNotFound } from './http/envelope.ts';
import { readBody, createRouter } from './http/router.ts';
import { logRequest } from './http/request-log.ts';
import { createServiceContext } from './http/service-context.ts';
import { noticeRoutes } from './routes/accounts/notices.ts';
import { groupRoutes, sceneRoutes } from './routes/collections.ts';
import { bulkRoutes } from './routes/bulk.ts';
import { bridgeRoutes } from './routes/machines/bridge.ts';
import { brokerHookRoutes } from './routes/broker-hooks/broker-hooks.ts';
import { checkInRoutes, deviceCommandRoutes } from './routes/devices/commands.ts';
import { deviceFirmwareRoutes, imageRoutes } from './routes/devices/firmware.ts';
import { deviceTimesRoutes } from './routes/devices/times.ts';
import { blockedSenderRoutes, deviceSharingRoutes, invitationRoutes } from './routes/devices/sharing.ts';
import { claimTokenRoutes, deviceOwnershipRoutes } from './routes/devices/ownership.ts';
import { claimRoutes, deviceRoutes } from './routes/devices/devices.ts';
import { guestPageRoutes } from './routes/devices/guest-pages.ts';
import { healthRoutes } from './routes/machines/health.ts';
import { pageRoutes } from './routes/pages.ts';
import { operatorRoutes } from './routes/machines/operator.ts';
import { productFirmwareRoutes } from './routes/products/firmware.ts';
import { productRoutes } from './routes/products/products.ts';
import { referenceRoutes } from './routes/reference.ts';
import { socketRoutes } from './routes/sockets.ts';
import { userRoutes } from './routes/accounts/users.ts';
import { webhookRoutes } from './routes/webhooks.ts';

export function createApp() {
  const app = createRouter();
  app.onError(onError);
  app.notFound(onNotFound);
  app.use(logRequest, createServiceContext);
  // Pages: their headers let them run the scripts of this origin.
  app.route('/', pageRoutes);
  app.route('/g', guestPageRoutes);

  app.use(setAnswerHeaders);

  // Machines of ours: the limits for callers do not apply to them.
  app.route('/bridge', bridgeRoutes);
  app.route('/operator', operatorRoutes);
  app.route('/hooks', brokerHookRoutes);
  app.use('/mqtt/*', trustGateway);
  app.route('/mqtt', socketRoutes);
  app.route('/health', healthRoutes);
  app.route('/w', checkInRoutes);
  app.route('/f', imageRoutes);

  for (const path of ['/api/*', '/t/*']) {
    app.use(path, allowOrigins, refuseCrossSite, readBody({ name: 'requestBodyBytes', max: 64 * 1024 }));
  }
  app.route('/api/v1', createApi());
  app.route('/t/:token/api/v1', claimRoutes);
  app.route('/api/v1', referenceRoutes);
  return app;
}

/** The contract's own routes: what the client package calls. */
function createApi() {
  return (
    createRouter()
      .route('/users/me/blocked-senders', blockedSenderRoutes)
      .route('/users/me', noticeRoutes)
      .route('/users', userRoutes)
      .route('/products', productRoutes)
      .route('/products', productFirmwareRoutes)
      .route('/invitations', invitationRoutes)
      .route('/claim-tokens', claimTokenRoutes)
      .route('/webhooks', webhookRoutes)
      .route('/groups', groupRoutes)
      .route('/scenes', sceneRoutes)
      .route('/', bulkRoutes)
      // Before the routes of single devices: `transfers` is no device id.
      .route('/devices', deviceOwnershipRoutes)
      .route('/devices', deviceRoutes)
      .route('/devices', deviceSharingRoutes)
      .route('/devices', deviceCommandRoutes)
      .route('/devices', deviceTimesRoutes)
      .route('/devices', deviceFirmwareRoutes)
  );
}
export type Api = ReturnType<typeof createApi>;
