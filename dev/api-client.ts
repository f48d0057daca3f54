// Calls the HTTP interface as any client would, for the demo and the waiting at start. No knowledge of the Worker's
// insides.
const timeoutMs = 10_000;

/** `message` is the service's own, e.g. `email_exists`. */
export class ApiError extends Error {
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

export type ApiCall = { method?: string; token?: string; body?: Record<string, unknown> };

/**
 * The answer's `data`.
 * @throws ApiError for an answer that is not a success
 */
export async function callApi(apiUrl: string, path: string, call: ApiCall = {}): Promise<Record<string, unknown>> {
  const { method = 'GET', token, body } = call;
  const response = await fetch(`${apiUrl}/api/v1${path}`, {
    method,
    headers: {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(timeoutMs),
  });
  const answer = (await response.json()) as { code: number; message?: string; data: Record<string, unknown> | null };
  if (answer.code !== 200) throw new ApiError(answer.code, answer.message ?? `code ${answer.code}`);
  return answer.data ?? {};
}

/** undefined when every part is connected, else what is missing in the service's words. */
export async function askHealth(apiUrl: string): Promise<string | undefined> {
  try {
    const response = await fetch(`${apiUrl}/health`, { signal: AbortSignal.timeout(2_000) });
    const answer = (await response.json()) as { message?: string };
    return response.ok ? undefined : (answer.message ?? `health answers ${response.status}`);
  } catch {
    return 'the API does not answer';
  }
}
