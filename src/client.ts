// A client of the HTTP interface for whatever has `fetch`: applications, dev tools, tests. Its types are those of the
// routes; at run time it needs none of them. Keeps no session and retries nothing.
import { hc } from 'hono/client';
import type { Api } from './app.ts';

export type Client = ReturnType<typeof hc<Api>>;

export type ClientOptions = {
  /** An access token of login or refresh, or an API key. */
  credentials?: { token: string } | { keyId: string; apiKey: string };
  timeoutMs?: number;
  /** Instead of the global one. */
  fetch?: (request: Request) => Promise<Response>;
};

/** An answer that is no success. `reason` is the documented word; the whole `message` may say more. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: number;
  readonly reason: string;
  readonly retryAfterSeconds: number | undefined;

  constructor(code: number, message: string, retryAfterSeconds?: number) {
    super(message);
    this.code = code;
    this.reason = message.split(': ', 1)[0] ?? message;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** `baseUrl` is the address of the service, without `/api/v1`. Calls are read with `dataOf`. */
export function createClient(baseUrl: string, options: ClientOptions = {}): Client {
  const { credentials, timeoutMs = 10_000, fetch: send = (request: Request) => fetch(request) } = options;
  return hc<Api>(`${baseUrl.replace(/\/+$/, '')}/api/v1`, {
    headers: headersOf(credentials),
    fetch: (input: string | URL | Request, init?: RequestInit) =>
      send(new Request(input, { ...init, signal: AbortSignal.timeout(timeoutMs) })),
  });
}

type Answered = { headers: Headers; json: () => Promise<unknown> };
type DataOf<Response extends Answered> = Response extends { json: () => Promise<infer Body> }
  ? Body extends { code: 200; data: infer Data }
    ? Data
    : never
  : never;

/** What one call of the client answers when it succeeds. */
export type Data<Call extends (...given: never[]) => Promise<Answered>> = DataOf<Awaited<ReturnType<Call>>>;

/** The `data` of an answer. @throws ApiError where the answer is no success */
export async function dataOf<Response extends Answered>(call: Promise<Response>): Promise<DataOf<Response>> {
  const response = await call;
  const { code, message, data } = (await response.json()) as { code: number; message: string; data: unknown };
  if (code === 200) return data as DataOf<Response>;
  const retryAfter = response.headers.get('Retry-After');
  throw new ApiError(code, message, retryAfter === null ? undefined : Number(retryAfter));
}

function headersOf(credentials: ClientOptions['credentials']): Record<string, string> {
  if (credentials === undefined) return {};
  if ('token' in credentials) return { Authorization: `Bearer ${credentials.token}` };
  return { 'X-API-Key': credentials.keyId, 'X-API-Secret': credentials.apiKey };
}
