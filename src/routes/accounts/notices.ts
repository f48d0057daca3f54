// Notices, their settings and push subscriptions over HTTP: parse, one service call, answer.
import type { Context } from 'hono';
import { inPersonFor } from '../../http/authenticate.ts';
import { answer, declaring, signedInErrors } from '../../http/envelope.ts';
import { createRouter, jsonBody, paged, routesAbout, type AppEnv, type UserCaller } from '../../http/router.ts';
import * as schemas from '../../protocol/http/notices.ts';
import { zoneSchema } from '../../protocol/http/usage.ts';
import { noticesOf } from '../../services/notices.ts';

const route = routesAbout('Notices');
const mayManage = declaring(inPersonFor('manageNotices'), ...signedInErrors);
const zone = mayManage('Read the time zone of your days', zoneSchema);
const settings = mayManage('Read what you are told', schemas.noticeSettingsSchema);
const subscribingErrors = ['too_many_push_subscriptions'] as const;

const of = (c: Context<AppEnv & { Variables: { caller: UserCaller } }>) =>
  noticesOf(c.var.context, c.var.caller.userId);

export const noticeRoutes = createRouter()
  .openapi(
    route('get', '/notices', {
      ...paged(mayManage('List your last hundred notices, newest first', schemas.noticePageSchema)),
      description: 'A notice replaces the former one about the same matter, and goes when its cause is gone.',
    }),
    (c) => answer(c, of(c).list(c.req.valid('query'))),
  )
  .openapi(
    route('patch', '/notices', {
      ...mayManage('Mark notices as read', schemas.noticesReadSchema),
      request: { body: jsonBody(schemas.readBodySchema, { isRequired: false }) },
    }),
    (c) => answer(c, of(c).markRead(c.req.valid('json').noticeIds)),
  )
  .openapi(route('get', '/notice-settings', settings), (c) => answer(c, of(c).readSettings()))
  .openapi(
    route('put', '/notice-settings', {
      ...settings,
      summary: 'Set what you are told',
      request: { body: jsonBody(schemas.noticeSettingsSchema) },
    }),
    (c) => answer(c, of(c).writeSettings(c.req.valid('json'))),
  )
  .openapi(route('get', '/zone', zone), (c) => answer(c, of(c).readZone()))
  .openapi(
    route('put', '/zone', {
      ...zone,
      summary: 'Set the time zone of your days',
      description: 'In which the usage of your devices is counted. It counts from the next day of each device on.',
      request: { body: jsonBody(zoneSchema) },
    }),
    (c) => answer(c, of(c).writeZone(c.req.valid('json').zone)),
  )
  .openapi(
    route('get', '/push-subscriptions', {
      ...mayManage('List the browsers that notices are pushed to', schemas.pushSubscriptionsSchema),
    }),
    (c) => answer(c, of(c).listSubscriptions()),
  )
  .openapi(
    route('post', '/push-subscriptions', {
      ...mayManage(
        'Push notices to a browser, one of ten at most',
        schemas.pushSubscriptionSchema,
        ...subscribingErrors,
      ),
      request: { body: jsonBody(schemas.pushSubscriptionBodySchema) },
    }),
    (c) => answer(c, of(c).subscribe(c.req.valid('json'))),
  )
  .openapi(
    route('delete', '/push-subscriptions/{subscriptionId}', {
      ...mayManage('Push no more to a browser', schemas.endedSubscriptionSchema, 'not_found'),
    }),
    (c) => answer(c, of(c).unsubscribe(c.req.valid('param').subscriptionId)),
  );
