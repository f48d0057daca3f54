// Who asks: sets `c.var.caller` or refuses with 401. What the caller may do is each service's to decide.
import type { Context } from 'hono';
import { createMiddleware } from 'hono/factory';
import { verifyAccessToken } from '../crypto/tokens.ts';
import { RefusedError } from '../domain/refusal.ts';
import { authenticateKey } from '../services/api-keys.ts';
import type { AppEnv, Caller, UserCaller } from './app-env.ts';
import { contextOf } from './service-context.ts';

type Asking = Pick<Context<AppEnv>, 'req' | 'env' | 'var' | 'executionCtx'>;
type CallerOf<Accepts> = Accepts extends 'user' ? UserCaller : Caller;

/** `user`: a bearer token only; `user-or-key`: an API key pair as well (decisions, Accounts). */
export function authenticate<Accepts extends 'user' | 'user-or-key'>(accepts: Accepts) {
  return createMiddleware<AppEnv & { Variables: { caller: CallerOf<Accepts> } }>(async (c, next) => {
    // A bearer token that is present decides, even a bad one: a caller never silently becomes somebody else.
    const isBearer = c.req.header('Authorization') !== undefined;
    const caller = isBearer || accepts === 'user' ? await readBearer(c) : await readKeyPair(c);
    if (caller === undefined) {
      const credential = isBearer || accepts === 'user' ? 'access_token' : 'api_key';
      throw new RefusedError({ kind: 'credential_refused', credential, problem: isBearer ? 'wrong' : 'missing' });
    }
    c.set('caller', caller as CallerOf<Accepts>);
    await next();
  });
}

export async function readBearer(c: Asking): Promise<UserCaller | undefined> {
  const token = /^Bearer +(\S+)$/i.exec(c.req.header('Authorization')?.trim() ?? '')?.[1];
  if (token === undefined) return undefined;
  const access = await verifyAccessToken(c.var.config, token);
  return access && { kind: 'user', userId: access.userId, sessionId: access.sessionId };
}

async function readKeyPair(c: Asking): Promise<Caller | undefined> {
  const pair = [c.req.header('X-API-Key')?.trim() ?? '', c.req.header('X-API-Secret')?.trim() ?? ''];
  // The interface calls the `sk_` value `apiKey`, so clients send the pair either way round (decisions, Accounts).
  const keyId = pair.find((part) => part.startsWith('ak_'));
  const secret = pair.find((part) => part.startsWith('sk_'));
  if (keyId === undefined || secret === undefined) return undefined;
  const key = await authenticateKey(contextOf(c), keyId, secret, (work) => {
    c.executionCtx.waitUntil(work);
  });
  return key && { kind: 'api-key', userId: key.userId, keyId };
}
