// Our own machines prove themselves by a secret: `Authorization: Bearer <secret>`, or, if a broker can send no header,
// `/hooks/{vendor}/s/{secret}/...`. Two secrets may be live at once, so that each side can be changed in turn. Never
// logged: the request log holds route patterns, and invocation logs are off in wrangler.toml.
import type { Context } from 'hono';
import { createMiddleware } from 'hono/factory';
import { tryDecodeURIComponent } from 'hono/utils/url';
import { isOneOf } from '../crypto/secrets.ts';
import { credentialRefused, RefusedError } from '../domain/refusal.ts';
import type { AppEnv } from './router.ts';

export function readBearerSecret(c: Context<AppEnv>): string | undefined {
  return /^Bearer +(\S+)$/i.exec(c.req.header('Authorization') ?? '')?.[1];
}

const credentials = {
  bridgeSecrets: 'bridge_secret',
  brokerHookSecrets: 'hook_secret',
  operatorSecrets: 'operator_secret',
} as const;

export function requireSecret(which: keyof typeof credentials) {
  return createMiddleware<AppEnv>(async (c, next) => {
    const header = c.req.header('Authorization');
    const inPath = /^\/hooks\/[^/]+\/s\/([^/]+)\//.exec(c.req.path)?.[1];
    const secret = readBearerSecret(c) ?? (inPath && tryDecodeURIComponent(inPath));
    if (secret === undefined || !(await isOneOf(secret, c.var.context.config[which]))) {
      const problem = secret !== undefined ? 'wrong' : header === undefined ? 'missing' : 'malformed';
      throw new RefusedError(credentialRefused(credentials[which], problem));
    }
    await next();
  });
}
