// One request to the Worker: posts the body of a batch and reads what the answer means.
// It decides nothing: no retries, no splitting, no waiting.
import { z } from 'zod';
import { uplinkAnswerSchema, uplinkPath, type UplinkResult } from '../../../src/protocol/bridge.ts';
import { readJson } from '../intake/json.ts';
import { describeError } from '../../../node-service/log.ts';

/** `status` is 0 if there was no answer; `requestId` is the Worker's, to find the request in its log. */
export type UplinkOutcome = { status: number; requestId: string | undefined } & (
  | { kind: 'answered'; results: UplinkResult[] }
  | { kind: 'unauthorized' }
  | { kind: 'too-large' | 'invalid'; reason: string }
  /** The Worker itself failed, with this batch or with everything. */
  | { kind: 'failed'; cause: string }
  | { kind: 'unavailable'; cause: string; retryAfterMs: number }
);

const maxRetryAfterMs = 600_000;

const errorSchema = z.object({ code: z.int(), message: z.string() });

export type UplinkClient = ReturnType<typeof createUplinkClient>;

export function createUplinkClient(workerUrl: string, secret: string, answerTimeoutMs = 15_000) {
  const abort = new AbortController();
  const post = async (body: string): Promise<UplinkOutcome> => {
    try {
      const response = await fetch(`${workerUrl}${uplinkPath}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
        body,
        redirect: 'manual',
        // For the whole exchange, however slowly the bytes of the answer come.
        signal: AbortSignal.any([abort.signal, AbortSignal.timeout(answerTimeoutMs)]),
      });
      return readAnswer(response, await response.text());
    } catch (error) {
      // `fetch` says why it failed in the cause.
      const cause = describeError(error instanceof TypeError ? (error.cause ?? error) : error);
      return { kind: 'unavailable', status: 0, requestId: undefined, cause, retryAfterMs: 0 };
    }
  };
  return { post, close: () => abort.abort() };
}

function readAnswer({ status, headers }: Response, text: string): UplinkOutcome {
  const answer = { status, requestId: headers.get('x-request-id') ?? undefined };
  if (status === 401 || status === 403) return { ...answer, kind: 'unauthorized' };
  if (status === 413) return { ...answer, kind: 'too-large', reason: 'too large for one request' };
  // Only the Worker's own error counts: a proxy that is badly set up must not turn messages into dead letters.
  const error = readJson(errorSchema, text);
  if (status === 400 && error?.code === 400) return { ...answer, kind: 'invalid', reason: error.message };
  if (status === 500 && error?.code === 500) return { ...answer, kind: 'failed', cause: error.message };
  let cause = `status ${status}`;
  if (status === 200) {
    const body = readJson(uplinkAnswerSchema, text);
    if (body !== undefined) return { ...answer, kind: 'answered', results: body.data.results };
    cause = 'status 200, but not an answer of the Worker';
  }
  // As the Worker writes it: in seconds. A date counts as none.
  const retryAfterMs = Math.min((Number(headers.get('retry-after')) || 0) * 1000, maxRetryAfterMs);
  return { ...answer, kind: 'unavailable', cause, retryAfterMs };
}
