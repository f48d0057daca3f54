// Calls of the HTTP interface, for whatever has `fetch`. The types are those of the routes; at run time none of them is
// needed. Keeps no session and repeats nothing.
import { hc } from 'hono/client';
import type { Api, ErrorMessage } from './api.ts';

export type Client = ReturnType<typeof hc<Api>>;

export type HttpOptions = {
  /** How long a call may take; one that waits for a device (`wait`) may take that long and 5 s more, one with an image longer by its size. */
  timeoutMs?: number;
  /** Instead of the global one. */
  fetch?: (request: Request) => Promise<Response>;
};

export type ClientOptions = HttpOptions & {
  /** An access token of login or refresh, or an API key. */
  credentials?: { token: string } | { keyId: string; apiKey: string };
};

/** The documented words, and one for an answer that is not the service's: a proxy may answer in its place. */
export type Reason = ErrorMessage | 'unreadable_answer';

/** An answer that is no success. `reason` is the documented word; the whole `message` may say more. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: number;
  /** A newer service may answer a word that this list does not have: keep a default branch. */
  readonly reason: Reason;
  readonly retryAfterSeconds: number | undefined;

  constructor(code: number, message: string, retryAfterSeconds?: number) {
    super(message);
    this.code = code;
    this.reason = (message.split(': ', 1)[0] ?? message) as Reason;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** No answer came: whether the service has done what it was asked is not known. */
export class NoAnswerError extends Error {
  override readonly name = 'NoAnswerError';
  readonly isTimeout: boolean;

  constructor(message: string, isTimeout: boolean, cause: unknown) {
    super(message, { cause });
    this.isTimeout = isTimeout;
  }
}

export type Send = (url: string, init: RequestInit) => Promise<Response>;

/** `baseUrl` is the address of the service, without `/api/v1`. Calls are read with `dataOf`. */
export function createClient(baseUrl: string, options: ClientOptions = {}): Client {
  const send = createSend(options);
  const headers = headersOf(options.credentials);
  return connect(baseUrl, (url, init) => send(url, withHeaders(init, headers)));
}

export function connect(baseUrl: string, send: Send): Client {
  return hc<Api>(`${withoutSlash(baseUrl)}/api/v1`, {
    fetch: (input: string | URL | Request, init?: RequestInit) =>
      send(input instanceof Request ? input.url : String(input), init ?? {}),
  });
}

/** @throws NoAnswerError from what it returns */
export function createSend({ timeoutMs = 10_000, fetch: ask = (request) => fetch(request) }: HttpOptions): Send {
  return async (url, init) => {
    // AbortSignal.timeout is not everywhere.
    const stop = new AbortController();
    const limitMs = Math.max(timeoutMs, waitMsOf(url)) + uploadMsOf(init.body);
    const timer = setTimeout(() => stop.abort(), limitMs);
    try {
      return await ask(new Request(url, { ...init, signal: stop.signal }));
    } catch (error) {
      const message = stop.signal.aborted ? `no answer within ${limitMs} ms` : 'the service cannot be reached';
      throw new NoAnswerError(message, stop.signal.aborted, error);
    } finally {
      clearTimeout(timer);
    }
  };
}

export function withHeaders(init: RequestInit, more: Record<string, string>): RequestInit {
  const headers = new Headers(init.headers);
  for (const [name, value] of Object.entries(more)) headers.set(name, value);
  return { ...init, headers };
}

export function withoutSlash(baseUrl: string): string {
  return baseUrl.replace(/\/+$/, '');
}

type Answered = { headers: Headers; status: number; json: () => Promise<unknown> };
type DataOf<Response extends Answered> = Response extends { json: () => Promise<infer Body> }
  ? Body extends { code: 200; data: infer Data }
    ? Data
    : never
  : never;

/** What one call of the client answers when it succeeds. */
export type Data<Call extends (...given: never[]) => Promise<Answered>> = DataOf<Awaited<ReturnType<Call>>>;

/** The `data` of an answer. @throws ApiError where the answer is no success, NoAnswerError where none came */
export async function dataOf<Response extends Answered>(call: Promise<Response>): Promise<DataOf<Response>> {
  const response = await call;
  const body = readEnvelope(await response.json().catch((error: unknown) => String(error)));
  if (body?.code === 200) return body.data as DataOf<Response>;
  const retryAfter = response.headers.get('Retry-After');
  throw new ApiError(
    body?.code ?? response.status,
    body?.message ?? 'unreadable_answer',
    retryAfter === null ? undefined : Number(retryAfter),
  );
}

function readEnvelope(body: unknown): { code: number; message: string; data: unknown } | undefined {
  if (typeof body !== 'object' || body === null) return undefined;
  const { code, message = 'success', data = null } = body as Record<string, unknown>;
  return typeof code === 'number' && typeof message === 'string' ? { code, message, data } : undefined;
}

function waitMsOf(url: string): number {
  const seconds = /[?&]wait=(\d+)/.exec(url)?.[1];
  return seconds === undefined ? 0 : Number(seconds) * 1000 + 5_000;
}

/** Over a slow line. */
const uploadBytesPerMs = 32;

function uploadMsOf(body: RequestInit['body']): number {
  return body instanceof Blob ? Math.ceil(body.size / uploadBytesPerMs) : 0;
}

function headersOf(credentials: ClientOptions['credentials']): Record<string, string> {
  if (credentials === undefined) return {};
  if ('token' in credentials) return { Authorization: `Bearer ${credentials.token}` };
  return { 'X-Key-Id': credentials.keyId, 'X-API-Key': credentials.apiKey };
}
