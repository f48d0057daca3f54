// Who asks: sets `c.var.caller` or refuses with 401; a user who asks too often is refused with 429. Whether an API
// key may ask at all, and whether the session has to be open, follows from the actions that a route declares. Everything else
// that a caller may is decided by each service.
import type { Context } from 'hono';
import { createMiddleware } from 'hono/factory';
import { findKeyPair } from '../crypto/secrets.ts';
import { verifyAccessToken } from '../crypto/tokens.ts';
import { hasScope, inPerson, scopesFor, type Action } from '../domain/access.ts';
import { credentialRefused, refuse, RefusedError, unwrap, type Outcome } from '../domain/refusal.ts';
import { readRevokedUsers } from '../objects/calls/revoked-users.ts';
import { authenticateKey } from '../services/accounts/api-keys.ts';
import { requireOpenSession } from '../services/accounts/sessions.ts';
import { holdToShield, holdToUserRate } from '../pacing/rate-limits.ts';
import type { AppEnv, Caller, UserCaller } from './router.ts';

type Asking = Pick<Context<AppEnv>, 'req' | 'env' | 'var'>;
type Accepted = 'user' | 'confirmed-user' | 'user-or-key';
type CallerOf<Accepts> = Accepts extends 'user-or-key' ? Caller : UserCaller;

/** `user`, `confirmed-user`: a bearer token only; `user-or-key`: an API key pair as well, with a scope for one of `actions`. */
function authenticate<Accepts extends Accepted>(accepts: Accepts, actions: readonly Action[]) {
  return createMiddleware<AppEnv & { Variables: { caller: CallerOf<Accepts> } }>(async (c, next) => {
    // A bearer token decides wherever there is one, even a bad one: a caller never silently becomes somebody else.
    const header = c.req.header('Authorization');
    const isByKey = accepts === 'user-or-key' && header === undefined;
    const read = await (isByKey ? readKeyPair(c) : readBearer(c, header));
    const caller = unwrap<Caller>(read);
    const { context } = c.var;
    await holdToShield(context, 'USER_LIMIT', `user ${caller.userId}`);
    const [action = ''] = actions;
    // A command writes nothing to the database, and has a limit of its own.
    const isWrite = !['GET', 'HEAD'].includes(c.req.method) && action !== 'control';
    await holdToUserRate(context, caller.userId, isWrite ? 'write' : 'read');
    if (!actions.some((scoped) => hasScope(caller, scoped))) {
      throw new RefusedError({ kind: 'key_lacks_right', lacks: 'scope', action });
    }
    // Reads and commands do without the database. What stays after a token has expired asks it first.
    if (caller.kind === 'user' && (accepts !== 'user-or-key' || isWrite)) {
      await requireOpenSession(context, caller, accepts === 'confirmed-user');
    }
    c.set('caller', caller as CallerOf<Accepts>);
    await next();
  });
}

/**
 * For `createRoute`: what a route does, of domain/access.ts; with several, its service decides which of them is asked for.
 * The reference names them, and the scopes of which an API key needs one; the schemes are declared in routes/reference.ts.
 */
export function signedInFor(...actions: [Action, ...Action[]]) {
  const needed = [...new Set(actions.flatMap((action) => scopesFor(action)))];
  return {
    'x-actions': actions,
    security: [{ bearerAuth: [] }, ...needed.map((scope) => ({ keyId: [], apiKey: [scope] }))],
    middleware: authenticate('user-or-key', actions),
  };
}

/** As `signedInFor`, for actions that no API key may do. */
export function inPersonFor(...actions: [Action, ...Action[]]) {
  return { 'x-actions': actions, security: [{ bearerAuth: [] }], middleware: authenticate('user', actions) };
}

/** As `inPersonFor`, and the user has logged in or shown the password a moment ago (POST /users/me/confirmations). */
export function confirmedFor(...actions: [Action, ...Action[]]) {
  return { ...inPersonFor(...actions), middleware: authenticate('confirmed-user', actions) };
}

export async function readBearer(c: Asking, header = c.req.header('Authorization')): Promise<Outcome<UserCaller>> {
  const token = /^Bearer +(\S+)$/i.exec(header?.trim() ?? '')?.[1];
  if (token === undefined) {
    const problem = header === undefined ? 'missing' : 'malformed';
    return refuse(credentialRefused('access_token', problem));
  }
  const access = await verifyAccessToken(c.var.context.config, token);
  if (!access.ok) return access;
  const { userId, sessionId } = access.value;
  if ((await readRevokedUsers(c.env)).has(userId)) return refuse(credentialRefused('session', 'unknown_account'));
  return { ok: true, value: { kind: 'user', ...inPerson(userId), sessionId } };
}

async function readKeyPair(c: Asking): Promise<Outcome<Caller>> {
  // `keyId` and `apiKey`; or the contract's own pair, either way round, because it calls the `sk_` value `apiKey`, too
  // (decision: accounts).
  const parts = ['X-Key-Id', 'X-API-Key', 'X-API-Secret'].flatMap((name) => c.req.header(name)?.trim() || []);
  const pair = findKeyPair(parts);
  if (pair === undefined) return refuse(credentialRefused('api_key', parts.length < 2 ? 'missing' : 'malformed'));
  const key = await authenticateKey(c.var.context, pair.keyId, pair.secret);
  return key.ok ? { ok: true, value: { kind: 'api-key', ...key.value } } : key;
}
