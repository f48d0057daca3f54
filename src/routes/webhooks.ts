// Webhooks over HTTP: parse, one service call, answer.
import type { Context } from 'hono';
import { signedInFor } from '../http/authenticate.ts';
import { answer, callerErrors, declaring } from '../http/envelope.ts';
import { createRouter, jsonBody, paged, routesAbout, type AppEnv } from '../http/router.ts';
import * as schemas from '../protocol/http/webhooks.ts';
import { webhooksOf } from '../services/webhooks.ts';

const route = routesAbout('Webhooks');
const mayManage = declaring(signedInFor('manageWebhooks'), ...callerErrors);
const mayManageOne = declaring(signedInFor('manageWebhooks'), ...callerErrors, 'not_found');

const path = '/{webhookId}';

const of = (c: Context<AppEnv>) => webhooksOf(c.var.context, c.var.caller);

export const webhookRoutes = createRouter()
  .openapi(
    route('post', '/', {
      ...mayManage('Make a webhook', schemas.createdWebhookSchema, 'too_many_webhooks'),
      request: { body: jsonBody(schemas.webhookBodySchema) },
      description:
        'Events of your devices are sent to `url` by Standard Webhooks 1.0: in order for each device, repeated until the receiver ' +
        'answers 2xx. Before, `url` gets the event `endpoint.challenge`, and has to answer `{"challenge": ...}` with its ' +
        '`data.challenge`. You may have 20 webhooks.',
    }),
    (c) => answer(c, of(c).create(c.req.valid('json'))),
  )
  .openapi(route('get', '/', paged(mayManage('List your webhooks, newest first', schemas.webhookPageSchema))), (c) =>
    answer(c, of(c).list(c.req.valid('query'))),
  )
  .openapi(route('get', path, mayManageOne('Read a webhook', schemas.webhookSchema)), (c) =>
    answer(c, of(c).read(c.req.valid('param').webhookId)),
  )
  .openapi(
    route('patch', path, {
      ...mayManageOne('Change a webhook', schemas.webhookSchema),
      request: { body: jsonBody(schemas.webhookChangeSchema) },
      description:
        'Another `url` has to answer `endpoint.challenge`. A disabled webhook is enabled again if its `url` answers.',
    }),
    (c) => answer(c, of(c).change(c.req.valid('param').webhookId, c.req.valid('json'))),
  )
  .openapi(route('delete', path, mayManageOne('Delete a webhook', schemas.deletedWebhookSchema)), (c) =>
    answer(c, of(c).delete(c.req.valid('param').webhookId)),
  )
  .openapi(
    route('post', `${path}/secret`, {
      ...mayManageOne('Replace the secret of a webhook', schemas.webhookSecretSchema),
      description: 'For a day messages have two signatures, the second one by the former secret.',
    }),
    (c) => answer(c, of(c).replaceSecret(c.req.valid('param').webhookId)),
  )
  .openapi(
    route('post', `${path}/test`, {
      ...mayManageOne('Send a test message', schemas.webhookTestSchema),
      description: 'Sends `endpoint.test`, and answers with the exact text signed and what the receiver answered.',
    }),
    (c) => answer(c, of(c).test(c.req.valid('param').webhookId)),
  )
  .openapi(
    route('post', `${path}/redeliver`, {
      ...mayManageOne('Deliver events of a device again', schemas.redeliverySchema, 'device_not_found'),
      request: { body: jsonBody(schemas.redeliveryBodySchema) },
      description:
        'All from that number, under the same ids. What the device no longer has is a `gap`. 404 for a device that has no events for it.',
    }),
    (c) => answer(c, of(c).redeliver(c.req.valid('param').webhookId, c.req.valid('json'))),
  )
  .openapi(
    route('get', `${path}/deliveries`, {
      ...paged(mayManageOne('List the last 100 deliveries', schemas.deliveryPageSchema)),
      description: 'Newest first, each attempt on its own. Successes of the last ten minutes may be missing.',
    }),
    (c) => answer(c, of(c).listDeliveries(c.req.valid('param').webhookId, c.req.valid('query'))),
  );
