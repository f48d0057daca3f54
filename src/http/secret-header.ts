// Machines of ours prove themselves by a secret: `Authorization: Bearer <secret>`, or, where a broker can send no
// header, `/hooks/{vendor}/s/{secret}/...`. Two secrets may be live at once, so that each side can be changed in its
// turn. Never logged: the request log holds route patterns, and invocation logs are off in wrangler.toml.
import type { Context } from 'hono';
import { createMiddleware } from 'hono/factory';
import { isOneOf } from '../crypto/secrets.ts';
import { RefusedError } from '../domain/refusal.ts';
import type { AppEnv } from './app-env.ts';

/** undefined where none was sent. */
type Given = { secret: string } | 'malformed' | undefined;

export function requireSecret(which: 'bridgeSecrets' | 'brokerHookSecrets') {
  return createMiddleware<AppEnv>(async (c, next) => {
    const inHeader = readHeader(c);
    const inPath = which === 'brokerHookSecrets' && typeof inHeader !== 'object' ? readPath(c) : undefined;
    const given = inPath ?? inHeader;
    const isRight = typeof given === 'object' && (await isOneOf(given.secret, c.var.config[which]));
    if (!isRight) {
      const credential = which === 'bridgeSecrets' ? 'bridge_secret' : 'hook_secret';
      const problem = given === undefined ? 'missing' : given === 'malformed' ? given : 'wrong';
      throw new RefusedError({ kind: 'credential_refused', credential, problem });
    }
    await next();
  });
}

function readHeader(c: Context): Given {
  const header = c.req.header('Authorization');
  if (header === undefined) return undefined;
  const secret = /^Bearer +(\S+)$/i.exec(header)?.[1];
  return secret === undefined ? 'malformed' : { secret };
}

function readPath(c: Context): Given {
  const encoded = /^\/hooks\/[^/]+\/s\/([^/]+)\//.exec(c.req.path)?.[1];
  if (encoded === undefined) return undefined;
  try {
    return { secret: decodeURIComponent(encoded) };
  } catch (error) {
    if (error instanceof URIError) return 'malformed';
    throw error;
  }
}
