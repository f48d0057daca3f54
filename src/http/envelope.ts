// The response envelope of contract 2.1: its schemas for the reference, and the two ways to send one.
import { z } from '@hono/zod-openapi';
import type { Context, TypedResponse } from 'hono';
import type { JSONParsed } from 'hono/utils/types';
import { wireErrorOf, type Refusal } from '../domain/refusal.ts';
import type { ErrorMessage } from '../protocol/vocabulary.ts';
import type { AppEnv } from './app-env.ts';
import { statusOf, statusOfRefusal, type ErrorStatus } from './error-status.ts';
import { noteRefusal } from './request-log.ts';

const maxMessageBytes = 200;

function envelopeOf<T extends z.ZodType>(schema: T) {
  return z.object({
    code: z.literal(200).openapi({ type: 'integer', enum: [200], example: 200 }),
    message: z.literal('success'),
    data: schema,
  });
}

/** The route response of a success, for `createRoute`. */
export function dataAnswer<T extends z.ZodType>(schema: T) {
  return { 200: { description: 'success', content: { 'application/json': { schema: envelopeOf(schema) } } } };
}

type Envelope<T> = { code: 200; message: 'success'; data: JSONParsed<T> };

// The type is given because inferring it costs the type check most of its time and declarations cannot hold it.
export function answer<T>(c: Context, data: T): Response & TypedResponse<Envelope<T>, 200, 'json'> {
  return c.json({ code: 200, message: 'success', data }, 200) as never;
}

/** Answers a refusal and logs why. The text, `message: detail`, is cut to 200 bytes (decision: envelope). */
export function answerRefusal(c: Context<AppEnv>, refusal: Refusal) {
  const { message, detail, retryAfterSeconds } = wireErrorOf(refusal);
  const status = statusOfRefusal(refusal, message);
  if (retryAfterSeconds !== undefined) c.header('Retry-After', String(retryAfterSeconds));
  noteRefusal(c, refusal);
  const text = detail === undefined ? message : cutToBytes(`${message}: ${detail}`, maxMessageBytes);
  return c.json({ code: status, message: text, data: null }, status);
}

/** Route responses for the errors a route can raise, grouped by status, for `createRoute`. */
export function errorAnswers(...messages: ErrorMessage[]) {
  const always: ErrorMessage[] = ['internal_error'];
  const grouped = Map.groupBy([...new Set([...messages, ...always])], statusOf);
  return Object.fromEntries([...grouped].map(([status, group]) => [status, errorAnswer(status, group)])) as Record<
    ErrorStatus,
    ReturnType<typeof errorAnswer>
  >;
}

function errorAnswer(status: ErrorStatus, messages: ErrorMessage[]) {
  const schema = z.object({
    code: z.literal(status).openapi({ type: 'integer', enum: [status] }),
    // The word that tells errors apart comes first; a detail for people may follow.
    message: z
      .string()
      .max(maxMessageBytes)
      .regex(new RegExp(`^(${messages.join('|')})(: [\\s\\S]*)?$`)),
    data: z.null(),
  });
  const examples = Object.fromEntries(
    messages.map((message) => [message, { value: { code: status, message, data: null } }]),
  );
  return {
    description: messages.join(', '),
    content: { 'application/json': { schema, examples } },
    ...(status === 429 && { headers: retryAfterHeader }),
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
