// The one place where an exception becomes an answer. The cause goes to the log, never to the caller.
import type { ErrorHandler, NotFoundHandler } from 'hono';
import { HTTPException } from 'hono/http-exception';
import { RefusedError } from '../domain/refusal.ts';
import { describeError, log } from '../log.ts';
import type { AppEnv } from './app-env.ts';
import { answerRefusal } from './envelope.ts';

export const onError: ErrorHandler<AppEnv> = (error, c) => {
  if (error instanceof RefusedError) return answerRefusal(c, error.refusal);
  // Hono throws these for a body that it cannot read.
  if (error instanceof HTTPException && error.status < 500) {
    return answerRefusal(c, { kind: 'invalid_input', path: 'body', problem: 'malformed JSON' });
  }
  log('error', 'uncaught', { requestId: c.var.requestId, ...describeError(error) });
  return answerRefusal(c, { kind: 'internal_error' });
};

/** Unknown routes and wrong methods. */
export const onNotFound: NotFoundHandler<AppEnv> = (c) => answerRefusal(c, { kind: 'not_found', what: 'route' });
