// What every handler finds in its Hono context. Types only.
import type { Refusal } from '../domain/refusal.ts';
import type { ServiceContext } from '../services/context.ts';

/** Who asks. An API key acts for its user, except where a route wants the user in person. */
export type UserCaller = { kind: 'user'; userId: number; sessionId: string };
export type Caller = UserCaller | { kind: 'api-key'; userId: number; keyId: string };

export type AppEnv = {
  Bindings: Env;
  /** `refusal`: why the request was refused, for its log line (request-log.ts). */
  Variables: { context: ServiceContext; requestId: string; caller: Caller; refusal: Refusal | undefined };
};
