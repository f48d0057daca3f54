// Machines of ours prove themselves by a secret: `Authorization: Bearer <secret>`, or the path where a broker can send
// no header. Two secrets may be live at once, so that each side can be changed in its turn. Never logged.
import { createMiddleware } from 'hono/factory';
import type { Config } from '../config.ts';
import { isOneOf } from '../crypto/secrets.ts';
import { ServiceError } from '../domain/errors.ts';
import type { AppEnv } from './app-env.ts';

export function requireSecret(which: 'bridgeSecrets' | 'brokerHookSecrets') {
  return createMiddleware<AppEnv>(async (c, next) => {
    const given = /^Bearer +(\S+)$/i.exec(c.req.header('Authorization') ?? '')?.[1];
    const live: Config[typeof which] = c.var.config[which];
    if (given === undefined || !(await isOneOf(given, live))) throw new ServiceError('unauthorized');
    await next();
  });
}
