// One request to the Worker: posts the body of a batch and reads what the answer means.
// It decides nothing: no retries, no splitting, no waiting.
import { Agent as HttpAgent, request as requestHttp, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { z } from 'zod';
import { uplinkAnswerSchema, uplinkPath, type UplinkResult } from '../../../src/protocol/bridge.ts';
import { readJson } from '../intake/json.ts';
import { describeError } from '../../../node-service/log.ts';

/** `status` is 0 where there was no answer; `requestId` is the Worker's, to find the request in its log. */
export type UplinkOutcome = { status: number; requestId: string | undefined } & (
  | { kind: 'answered'; results: UplinkResult[] }
  | { kind: 'unauthorized' }
  | { kind: 'too-large' | 'invalid'; reason: string }
  /** The Worker itself failed with the batch. */
  | { kind: 'failed'; cause: string }
  | { kind: 'unavailable'; cause: string; retryAfterMs: number }
);

const defaultAnswerTimeoutMs = 15_000;
const idleConnectionMs = 60_000;
const maxAnswerBytes = 1024 * 1024;
const maxRetryAfterMs = 600_000;

const refusalSchema = z.object({ code: z.literal(400), message: z.string() });
const failureSchema = z.object({ code: z.literal(500), message: z.string() });

export class UplinkClient {
  readonly #url: URL;
  readonly #secret: string;
  readonly #answerTimeoutMs: number;
  readonly #agent: HttpAgent;
  readonly #abort = new AbortController();

  constructor(workerUrl: string, secret: string, answerTimeoutMs = defaultAnswerTimeoutMs) {
    this.#answerTimeoutMs = answerTimeoutMs;
    this.#url = new URL(`${workerUrl}${uplinkPath}`);
    this.#secret = secret;
    const options = { keepAlive: true, timeout: idleConnectionMs };
    this.#agent = this.#url.protocol === 'https:' ? new HttpsAgent(options) : new HttpAgent(options);
  }

  async post(body: string): Promise<UplinkOutcome> {
    try {
      const { response, text } = await this.#exchange(body);
      return readAnswer(response, text);
    } catch (error) {
      const cause = describeError(error);
      return { kind: 'unavailable', status: 0, requestId: undefined, cause, retryAfterMs: 0 };
    }
  }

  /** Aborts what is under way and closes the idle connections. */
  close(): void {
    this.#abort.abort();
    this.#agent.destroy();
  }

  #exchange(body: string): Promise<{ response: IncomingMessage; text: string }> {
    const request = this.#url.protocol === 'https:' ? requestHttps : requestHttp;
    return new Promise((resolve, reject) => {
      const outgoing = request(
        this.#url,
        {
          method: 'POST',
          agent: this.#agent,
          // For the whole exchange: a socket timeout would be restarted by each byte of a slow answer.
          signal: AbortSignal.any([this.#abort.signal, AbortSignal.timeout(this.#answerTimeoutMs)]),
          headers: {
            authorization: `Bearer ${this.#secret}`,
            'content-type': 'application/json',
          },
        },
        (response) => {
          const chunks: Buffer[] = [];
          let length = 0;
          response.on('data', (chunk: Buffer) => {
            length += chunk.length;
            if (length > maxAnswerBytes) response.destroy(new Error('the answer is too long'));
            else chunks.push(chunk);
          });
          response.on('error', reject);
          response.on('end', () => resolve({ response, text: Buffer.concat(chunks).toString() }));
        },
      );
      outgoing.on('error', reject);
      outgoing.end(body);
    });
  }
}

function readAnswer({ statusCode: status = 0, headers }: IncomingMessage, text: string): UplinkOutcome {
  const answer = { status, requestId: headers['x-request-id']?.toString() };
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
  return { ...answer, kind: 'unavailable', cause, retryAfterMs: readRetryAfterMs(headers['retry-after']) };
}

/** Seconds or a date (RFC 9110 10.2.3); 0 where there is none. */
function readRetryAfterMs(header: string | undefined): number {
  if (header === undefined) return 0;
  const waitMs = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isFinite(waitMs) ? Math.min(Math.max(waitMs, 0), maxRetryAfterMs) : 0;
}
