// The one place where tests, faults, benchmarks and dev tools meet the typed client of client/.
import { ApiError, createClient, dataOf, type Client, type ClientOptions, type Data } from '../../client/src/http.ts';

export { ApiError, dataOf, type Data };
export type Api = Client;
export type Credentials = NonNullable<ClientOptions['credentials']>;

/** `send` replaces `fetch`. */
export function connectApi(workerUrl: string, credentials?: Credentials, send?: ClientOptions['fetch']): Api {
  return createClient(workerUrl, {
    ...(credentials !== undefined && { credentials }),
    ...(send !== undefined && { fetch: send }),
  });
}

/** undefined when every part of the service is connected, else what the service reports as missing, by name with `secret`. */
export async function askHealth(workerUrl: string, secret = ''): Promise<string | undefined> {
  try {
    const headers = { Authorization: `Bearer ${secret}` };
    const response = await fetch(`${workerUrl}/health`, { headers, signal: AbortSignal.timeout(2_000) });
    const { message } = (await response.json()) as { message?: string };
    return response.ok ? undefined : (message ?? `health answers ${response.status}`);
  } catch (error) {
    return `the API does not answer: ${describeFailure(error)}`;
  }
}

/** fetch says "fetch failed" and keeps what happened in `cause`. */
export function describeFailure(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? describeFailure(error.cause) : error.message;
}
