// Gives each request the service's context. A Worker without settings answers every path alike: the log names the
// settings, a stranger learns only what to run.
import { createMiddleware } from 'hono/factory';
import { readConfig, SettingsError } from '../config.ts';
import { createContext } from '../context.ts';
import { log } from '../log.ts';
import type { AppEnv } from './router.ts';
import { networkOf } from '../domain/client-network.ts';

const message = 'not configured: run `npm run dev` once on a laptop, `npm run deploy` for a deployment';

export const createServiceContext = createMiddleware<AppEnv>(async (c, next) => {
  try {
    const address = networkOf(c.req.header('CF-Connecting-IP') ?? 'unknown');
    // Behind a proxy that ends TLS. Addresses that are handed out begin with the scheme that the client sees.
    const isTls = c.req.header('X-Forwarded-Proto') === 'https';
    const url = isTls ? c.req.url.replace(/^http:/, 'https:') : c.req.url;
    c.set('context', createContext(c.env, readConfig(c.env), address, url));
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    log('error', 'settings', { requestId: c.var.requestId, error: error.message });
    return c.json({ code: 503, message, data: null }, 503);
  }
  await next();
});
