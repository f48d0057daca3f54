// What every handler finds in its Hono context. Types only.
import type { Actor } from '../domain/access.ts';
import type { Refusal } from '../domain/refusal.ts';
import type { ServiceContext } from '../context.ts';

/** Who asks. An API key acts for its user, except if a route wants the user in person. */
export type UserCaller = Actor & { kind: 'user'; sessionId: string };
export type Caller = UserCaller | (Actor & { kind: 'api-key' });

export type AppEnv = {
  Bindings: Env;
  Variables: {
    context: ServiceContext;
    requestId: string;
    caller: Caller;
    /** Why the request was refused, for its log line (request-log.ts). */
    refusal: Refusal | undefined;
    /** The address of a device behind a gateway (client-address.ts). */
    deviceAddress: string | undefined;
    isCsv: boolean | undefined;
  };
};
