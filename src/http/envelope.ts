// The response envelope of contract 2.1: its schemas for the reference, and the two ways to send one. Here alone an exception
// becomes an answer: its cause goes to the log, never to the caller.
import { z } from '@hono/zod-openapi';
import type { Context, ErrorHandler, NotFoundHandler, TypedResponse } from 'hono';
import { HTTPException } from 'hono/http-exception';
import type { JSONParsed } from 'hono/utils/types';
import { isDatabaseAway } from '../db/client.ts';
import { RefusedError, wireErrorOf, type Refusal } from '../domain/refusal.ts';
import { describeError, log } from '../log.ts';
import { statusByError, type ErrorMessage } from '../protocol/error-status.ts';
import { findMissingMigration } from '../services/operations/health.ts';
import type { AppEnv } from './router.ts';
import { noteRefusal } from './request-log.ts';

const maxMessageBytes = 200;

type ErrorStatus = (typeof statusByError)[ErrorMessage];

/** What a route refuses of a signed-in user's request, of any caller's, of a request about one device, and of one with a command. */
export const signedInErrors = ['invalid_request', 'unauthorized'] as const;
export const confirmedErrors = [...signedInErrors, 'confirmation_required'] as const;
export const callerErrors = [...signedInErrors, 'forbidden'] as const;
export const deviceErrors = [...callerErrors, 'device_not_found'] as const;
export const sessionErrors = [...deviceErrors, 'device_not_activated'] as const;
export const commandProblems = ['no_control_params', 'invalid_control_params'] as const;
export const commandErrors = [
  ...deviceErrors,
  ...commandProblems,
  'device_not_activated',
  'device_disabled',
  'device_restarting',
] as const;

/** The responses of a route for `createRoute`: its data, and the errors it can raise. */
export function responsesOf<T extends z.ZodType>(data: T, ...errors: ErrorMessage[]) {
  const code = z.literal(200).openapi({ type: 'integer', enum: [200], example: 200 });
  const schema = z.object({ code, message: z.literal('success'), data });
  return { 200: { description: 'success', content: { 'application/json': { schema } } }, ...errorAnswers(...errors) };
}

/** What routes with one access have in common, for `routesAbout`: who may call them, and the first errors. */
export function declaring<Access extends object>(access: Access, ...common: ErrorMessage[]) {
  return <Data extends z.ZodType>(summary: string, data: Data, ...errors: ErrorMessage[]) => ({
    summary,
    ...access,
    responses: responsesOf(data, ...common, ...errors),
  });
}

type Envelope<T> = { code: 200; message: 'success'; data: JSONParsed<T> };
export type Answer<T> = Response & TypedResponse<Envelope<T>, 200, 'json'>;

// The type is given because inferring it costs the type check most of its time and declarations cannot hold it.
export async function answer<T>(c: Context, data: T | Promise<T>): Promise<Answer<T>> {
  const response: Response = c.json({ code: 200, message: 'success', data: await data }, 200);
  return response as Answer<T>;
}

/** Answers a refusal and logs why. The text, `message: detail`, is cut to 200 bytes (decision: envelope). */
export function answerRefusal(c: Context<AppEnv>, refusal: Refusal) {
  const { message, detail, retryAfterSeconds } = wireErrorOf(refusal);
  // 413 tells the bridge to halve a batch; the contract's own routes never answer it.
  const isLargeBatch = refusal.kind === 'limit_reached' && refusal.limit.name === 'uplinkBatchBytes';
  const status = isLargeBatch ? 413 : statusByError[message];
  if (retryAfterSeconds !== undefined) c.header('Retry-After', String(retryAfterSeconds));
  noteRefusal(c, refusal);
  const text = detail === undefined ? message : cutToBytes(`${message}: ${detail}`, maxMessageBytes);
  return c.json({ code: status, message: text, data: null }, status);
}

export const onError: ErrorHandler<AppEnv> = async (error, c) => {
  if (error instanceof RefusedError) return answerRefusal(c, error.refusal);
  // Hono throws these for a body that it cannot read.
  if (error instanceof HTTPException && error.status < 500) {
    return answerRefusal(c, { kind: 'invalid_input', path: 'body', problem: 'malformed JSON' });
  }
  return answerRefusal(c, await logUncaught(c, error));
};

/** What an error is to the caller, who learns no cause. Of a database without a table or column, the log names the migration. */
export async function logUncaught(c: Context<AppEnv>, error: unknown): Promise<Refusal> {
  const described = describeError(error);
  const lacksMigration = /no such (?:table|column)/.test(String(described['error']));
  const missingMigration = lacksMigration ? await findMissingMigration(c.var.context).catch(String) : undefined;
  log('error', 'uncaught', { requestId: c.var.requestId, missingMigration, ...described });
  return { kind: isDatabaseAway(error) ? 'storage_unavailable' : 'internal_error' };
}

/** Unknown routes and wrong methods. */
export const onNotFound: NotFoundHandler<AppEnv> = (c) => answerRefusal(c, { kind: 'not_found', what: 'route' });

/** The errors of a route by their status; `internal_error` and `unavailable` are always among them. */
export function errorAnswers(...messages: ErrorMessage[]) {
  // A caller who may be refused for a key may be refused for too many wrong ones.
  const withLimit: ErrorMessage[] = messages.includes('unauthorized') ? [...messages, 'too_many_requests'] : messages;
  const all = new Set<ErrorMessage>([...withLimit, 'internal_error', 'unavailable']);
  const byStatus = Map.groupBy(all, (message) => statusByError[message]);
  const answers = [...byStatus].map(([status, ofStatus]) => [status, errorAnswer(status, ofStatus)] as const);
  return Object.fromEntries(answers) as Record<ErrorStatus, ReturnType<typeof errorAnswer>>;
}

type ErrorBody = { code: ErrorStatus; message: string; data: null };

const errorSchemas = new Map<ErrorMessage, z.ZodType<ErrorBody>>();

/** `device_not_found` is `DeviceNotFoundError` in the reference, once for all routes. */
function errorSchemaOf(message: ErrorMessage): z.ZodType<ErrorBody> {
  const earlier = errorSchemas.get(message);
  if (earlier !== undefined) return earlier;
  const status = statusByError[message];
  const schema = z
    .object({
      code: z.literal<ErrorStatus>(status).openapi({ type: 'integer', enum: [status] }),
      // The word that tells errors apart comes first; a detail for people may follow.
      message: z
        .string()
        .max(maxMessageBytes)
        .regex(new RegExp(`^${message}(: [\\s\\S]*)?$`))
        .openapi({ example: message }),
      data: z.null(),
    })
    .openapi(`${message.replaceAll(/(?:^|_)([a-z])/g, (_, letter: string) => letter.toUpperCase())}Error`);
  errorSchemas.set(message, schema);
  return schema;
}

function errorAnswer(status: ErrorStatus, messages: ErrorMessage[]) {
  const [only, ...others] = messages.map(errorSchemaOf);
  const schema: z.ZodType<ErrorBody> =
    only === undefined || others.length > 0 ? z.union(messages.map(errorSchemaOf)) : only;
  const examples = Object.fromEntries(
    messages.map((message) => [message, { value: { code: status, message, data: null } }]),
  );
  return {
    description: messages.join(', '),
    content: { 'application/json': { schema, examples } },
    ...((status === 429 || status === 503) && { headers: retryAfterHeader }),
  };
}

const retryAfterHeader = z.object({
  'Retry-After': z.string().openapi({ type: 'integer', description: 'Seconds to wait.', example: 60 }),
});

function cutToBytes(text: string, limit: number): string {
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= limit) return text;
  return new TextDecoder().decode(bytes.subarray(0, limit)).replace(/\uFFFD+$/, '');
}
