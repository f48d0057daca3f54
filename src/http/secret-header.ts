// Our own machines prove themselves by a secret: `Authorization: Bearer <secret>`, or, if a broker can send no header,
// `/hooks/{vendor}/s/{secret}/...`. Two secrets may be live at once, so that each side can be changed in turn. Never
// logged: the request log holds route patterns, and invocation logs are off in wrangler.toml.
import type { Context } from 'hono';
import { createMiddleware } from 'hono/factory';
import { tryDecodeURIComponent } from 'hono/utils/url';
import { isOneOf } from '../crypto/secrets.ts';
import { credentialRefused, RefusedError } from '../domain/refusal.ts';
import type { AppEnv } from './router.ts';

const credentials = {
  bridgeSecrets: 'bridge_secret',
  brokerHookSecrets: 'hook_secret',
  gatewaySecrets: 'gateway_secret',
  operatorSecrets: 'operator_secret',
} as const;
type Secrets = keyof typeof credentials;

/** Why the request does not show one of these secrets; undefined if it does. */
export async function findSecretProblem(c: Context<AppEnv>, which: Secrets) {
  const header = c.req.header('Authorization');
  const inPath = /^\/hooks\/[^/]+\/s\/([^/]+)\//.exec(c.req.path)?.[1];
  const secret = /^Bearer +(\S+)$/i.exec(header ?? '')?.[1] ?? (inPath && tryDecodeURIComponent(inPath));
  if (secret === undefined) return header === undefined ? 'missing' : 'malformed';
  return (await isOneOf(secret, c.var.context.config[which])) ? undefined : 'wrong';
}

/** @throws RefusedError credential_refused */
export async function holdToSecret(c: Context<AppEnv>, which: Secrets): Promise<void> {
  const problem = await findSecretProblem(c, which);
  if (problem !== undefined) throw new RefusedError(credentialRefused(credentials[which], problem));
}

export function requireSecret(which: Secrets) {
  return createMiddleware<AppEnv>(async (c, next) => {
    await holdToSecret(c, which);
    await next();
  });
}
