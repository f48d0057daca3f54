// For deployment checks and monitors, without authentication: whether the service works. What is missing is told with a secret.
import { answer, responsesOf } from '../../http/envelope.ts';
import { limitRate } from '../../http/client-address.ts';
import { createRouter, routesAbout } from '../../http/router.ts';
import { findSecretProblem } from '../../http/secret-header.ts';
import { healthSchema, unhealthySchema } from '../../protocol/http/health.ts';
import { findMissingParts } from '../../services/operations/health.ts';

const route = routesAbout('Health');

export const healthRoutes = createRouter().openapi(
  route('get', '/', {
    summary: 'Check every part of the service',
    description:
      'The answer may be a few seconds old. It names the parts only with `Authorization: Bearer` and a secret of the operator or ' +
      'of a bridge.',
    middleware: limitRate('HEALTH_LIMIT'),
    responses: {
      ...responsesOf(healthSchema, 'too_many_requests'),
      503: { description: 'unavailable', content: { 'application/json': { schema: unhealthySchema } } },
    },
  }),
  async (c) => {
    const missing = await findMissingParts(c.var.context);
    const shown = [findSecretProblem(c, 'operatorSecrets'), findSecretProblem(c, 'bridgeSecrets')];
    const isTrusted = (await Promise.all(shown)).includes(undefined);
    if (missing.length > 0) {
      const message = isTrusted ? `unavailable: ${missing.join(', ')}` : 'unavailable';
      return c.json({ code: 503 as const, message, data: null }, 503);
    }
    if (!isTrusted) return answer(c, { status: 'ok' as const });
    const brokerSide = c.var.context.config.hasBroker ? ({ bridge: 'up', broker: 'up' } as const) : {};
    return answer(c, { status: 'ok' as const, parts: { api: 'up' as const, database: 'up' as const, ...brokerSide } });
  },
);
