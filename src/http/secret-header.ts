// Machines of ours prove themselves by a secret: `Authorization: Bearer <secret>`, or, where a broker can send no
// header, `/hooks/{vendor}/s/{secret}/...`. Two secrets may be live at once, so that each side can be changed in its
// turn. Never logged: the request log knows route patterns, and invocation logs are off in wrangler.toml.
import type { Context } from 'hono';
import { createMiddleware } from 'hono/factory';
import type { Config } from '../config.ts';
import { isOneOf } from '../crypto/secrets.ts';
import { RefusedError } from '../domain/refusal.ts';
import type { AppEnv } from './app-env.ts';

export function requireSecret(which: 'bridgeSecrets' | 'brokerHookSecrets') {
  return createMiddleware<AppEnv>(async (c, next) => {
    const given = which === 'brokerHookSecrets' ? (readHeader(c) ?? readPath(c)) : readHeader(c);
    const live: Config[typeof which] = c.var.config[which];
    const credential = which === 'bridgeSecrets' ? 'bridge_secret' : 'hook_secret';
    if (given === undefined || !(await isOneOf(given, live))) {
      const problem = given === undefined ? 'missing' : 'wrong';
      throw new RefusedError({ kind: 'credential_refused', credential, problem });
    }
    await next();
  });
}

function readHeader(c: Context): string | undefined {
  return /^Bearer +(\S+)$/i.exec(c.req.header('Authorization') ?? '')?.[1];
}

function readPath(c: Context): string | undefined {
  const encoded = /^\/hooks\/[^/]+\/s\/([^/]+)\//.exec(c.req.path)?.[1];
  try {
    return encoded === undefined ? undefined : decodeURIComponent(encoded);
  } catch {
    return undefined;
  }
}
