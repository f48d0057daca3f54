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

const maxAnswerBytes = 1024 * 1024;
const maxRetryAfterMs = 600_000;

const refusalSchema = z.object({ code: z.literal(400), message: z.string() });
const failureSchema = z.object({ code: z.literal(500), message: z.string() });

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
      return readAnswer(response, await readText(response));
    } catch (error) {
      // `fetch` says why it failed in the cause.
      const cause = describeError(error instanceof TypeError ? (error.cause ?? error) : error);
      return { kind: 'unavailable', status: 0, requestId: undefined, cause, retryAfterMs: 0 };
    }
  };
  return { post, close: () => abort.abort() };
}

async function readText({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    if (bytes > maxAnswerBytes) throw new Error('the answer is too long');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function readAnswer({ status, headers }: Response, text: string): UplinkOutcome {
  const answer = { status, requestId: headers.get('x-request-id') ?? undefined };
  if (status === 401 || status === 403) return { ...answer, kind: 'unauthorized' };
  if (status === 413) return { ...answer, kind: 'too-large', reason: 'too large for one request' };
  if (status === 400) {
    // Only the Worker's own refusal counts: a proxy that is badly set up must not turn messages into dead letters.
    const refusal = readJson(refusalSchema, text);
    if (refusal !== undefined) return { ...answer, kind: 'invalid', reason: refusal.message };
  }
  // Anything else between here and the Worker that answers 500 concerns all messages alike.
  const failure = status === 500 ? readJson(failureSchema, text) : undefined;
  if (failure !== undefined) return { ...answer, kind: 'failed', cause: failure.message };
  let cause = `status ${status}`;
  if (status === 200) {
    const body = readJson(uplinkAnswerSchema, text);
    if (body !== undefined) return { ...answer, kind: 'answered', results: body.data.results };
    cause = 'status 200, but not an answer of the Worker';
  }
  return { ...answer, kind: 'unavailable', cause, retryAfterMs: readRetryAfterMs(headers.get('retry-after')) };
}

/** Seconds or a date (RFC 9110 10.2.3); 0 if there is none. */
function readRetryAfterMs(header: string | null): number {
  if (header === null) return 0;
  const waitMs = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isFinite(waitMs) ? Math.min(Math.max(waitMs, 0), maxRetryAfterMs) : 0;
}
