// For deployment checks and monitors, without authentication: whether the service works, and what is missing.
import { answer, responsesOf } from '../../http/envelope.ts';
import { limitRate } from '../../http/client-address.ts';
import { createRouter, routesAbout } from '../../http/router.ts';
import { healthSchema, unhealthySchema } from '../../protocol/http/health.ts';
import { findMissingParts } from '../../services/operations/health.ts';

const route = routesAbout('Health');

export const healthRoutes = createRouter().openapi(
  route('get', '/', {
    summary: 'Check every part of the service',
    description: 'The answer may be a few seconds old.',
    middleware: limitRate('HEALTH_LIMIT'),
    responses: {
      ...responsesOf(healthSchema, 'too_many_requests'),
      503: { description: 'unavailable', content: { 'application/json': { schema: unhealthySchema } } },
    },
  }),
  async (c) => {
    const missing = await findMissingParts(c.var.context);
    if (missing.length > 0) {
      return c.json({ code: 503 as const, message: `unavailable: ${missing.join(', ')}`, data: null }, 503);
    }
    const brokerSide = c.var.context.config.hasBroker ? ({ bridge: 'up', broker: 'up' } as const) : {};
    return answer(c, { status: 'ok' as const, parts: { api: 'up' as const, database: 'up' as const, ...brokerSide } });
  },
);
