// For deployment checks and monitors, without authentication: whether the service works, and what is missing.
import { createRoute } from '@hono/zod-openapi';
import { createMiddleware } from 'hono/factory';
import { readConfig, SettingsError } from '../../config.ts';
import type { AppEnv } from '../../http/app-env.ts';
import { answer, maxMessageBytes, responsesOf } from '../../http/envelope.ts';
import { limitRate } from '../../http/rate-limit.ts';
import { createRouter } from '../../http/router.ts';
import { healthSchema, unhealthySchema } from '../../protocol/http/health.ts';
import { log } from '../../log.ts';
import { findMissingParts } from '../../services/operations/health.ts';

const healthRoute = createRoute({
  method: 'get',
  path: '/',
  tags: ['Health'],
  summary: 'Check every part of the service',
  description: 'The answer may be a few seconds old.',
  middleware: limitRate('HEALTH_LIMIT'),
  responses: {
    ...responsesOf(healthSchema, 'too_many_requests'),
    503: { description: 'unavailable', content: { 'application/json': { schema: unhealthySchema } } },
  },
});

export const healthRoutes = createRouter().openapi(healthRoute, async (c) => {
  const missing = await findMissingParts(c.var.context);
  if (missing.length > 0) return c.json(describeUnavailable(missing), 503);
  const brokerSide = c.var.context.config.hasBroker ? ({ bridge: 'up', broker: 'up' } as const) : {};
  return answer(c, { status: 'ok' as const, parts: { api: 'up' as const, database: 'up' as const, ...brokerSide } });
});

/** Before any of the service's own work, which needs all settings: names those that are wrong. */
export const reportSettings = createMiddleware<AppEnv>(async (c, next) => {
  try {
    readConfig(c.env);
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    log('error', 'settings', { requestId: c.var.requestId, error: error.message });
    return c.json(describeUnavailable(error.problems.map(({ name, problem }) => `${name} ${problem}`)), 503);
  }
  return next();
});

/** As many of the missing parts as a message has room for. */
function describeUnavailable(missing: string[]) {
  const shown = [...missing];
  const describe = () => {
    const more = missing.length - shown.length;
    return `unavailable: ${[...shown, ...(more > 0 ? [`${more} more`] : [])].join(', ')}`;
  };
  while (shown.length > 0 && describe().length > maxMessageBytes) shown.pop();
  return { code: 503 as const, message: describe(), data: null };
}
