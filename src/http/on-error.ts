// The one place where an exception becomes an answer. Causes go to the log, never to the caller.
import type { ErrorHandler, NotFoundHandler } from 'hono';
import { HTTPException } from 'hono/http-exception';
import { ServiceError } from '../domain/errors.ts';
import type { AppEnv } from './app-env.ts';
import { answerError } from './envelope.ts';
import { describeError, log } from '../log.ts';

export const onError: ErrorHandler<AppEnv> = (error, c) => {
  if (error instanceof ServiceError) {
    if (error.retryAfterSeconds !== undefined) c.header('Retry-After', String(error.retryAfterSeconds));
    return answerError(c, error.code, error.detail);
  }
  // Hono raises these for a body it cannot read; anything else of that kind is the caller's mistake as well.
  if (error instanceof HTTPException && error.status < 500) {
    return answerError(c, 'invalid_request', 'body: malformed JSON');
  }
  log('error', 'uncaught', { requestId: c.get('requestId'), ...describeError(error) });
  return answerError(c, 'internal_error');
};

/** Unknown routes and wrong methods. */
export const onNotFound: NotFoundHandler<AppEnv> = (c) => answerError(c, 'not_found');
