// The authentication schemes of contract 5 as the reference names them. Declares; authenticate.ts enforces.
import type { OpenAPIHono } from '@hono/zod-openapi';
import type { AppEnv } from './app-env.ts';

export const byUser = [{ bearerAuth: [] }];
export const byUserOrKey = [{ bearerAuth: [] }, { apiKeyId: [], apiKeySecret: [] }];

export function registerSecuritySchemes(app: OpenAPIHono<AppEnv>): void {
  const registry = app.openAPIRegistry;
  registry.registerComponent('securitySchemes', 'bearerAuth', {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'The `token` of login or refresh.',
  });
  registry.registerComponent('securitySchemes', 'apiKeyId', {
    type: 'apiKey',
    in: 'header',
    name: 'X-API-Key',
    description: 'The `keyId` (`ak_...`) of an API key; the pair is also accepted the other way round.',
  });
  registry.registerComponent('securitySchemes', 'apiKeySecret', {
    type: 'apiKey',
    in: 'header',
    name: 'X-API-Secret',
    description: 'The `apiKey` (`sk_...`) of the same API key.',
  });
}
