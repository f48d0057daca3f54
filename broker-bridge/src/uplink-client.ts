// One request to the Worker: sends the body of a batch and reads what the answer means.
// It decides nothing: no retries, no splitting, no waiting.
import { Agent as HttpAgent, request as requestHttp, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { uplinkAnswerSchema, uplinkPath, type UplinkResult } from '../../src/protocol/bridge.ts';
import { describeError } from './log.ts';

export type UplinkOutcome =
  | { kind: 'answered'; results: UplinkResult[] }
  | { kind: 'unauthorized'; status: number }
  | { kind: 'too-large' }
  | { kind: 'invalid'; message: string }
  | { kind: 'unavailable'; cause: string; retryAfterMs: number };

const defaultAnswerTimeoutMs = 15_000;
const idleConnectionMs = 60_000;
const maxAnswerBytes = 1024 * 1024;
const maxRetryAfterMs = 600_000;

export class UplinkClient {
  /** 0 when the last request got no answer. */
  lastStatus = 0;
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
      this.lastStatus = response.statusCode ?? 0;
      return readAnswer(response, text);
    } catch (error) {
      this.lastStatus = 0;
      return { kind: 'unavailable', cause: describeError(error), retryAfterMs: 0 };
    }
  }

  /** Gives up what is under way and closes the idle connections. */
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
            'content-length': Buffer.byteLength(body),
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

function readAnswer(response: IncomingMessage, text: string): UplinkOutcome {
  const status = response.statusCode ?? 0;
  const retryAfterMs = readRetryAfterMs(response.headers['retry-after']);
  const unavailable: UplinkOutcome = { kind: 'unavailable', cause: `status ${status}`, retryAfterMs };
  if (status === 401 || status === 403) return { kind: 'unauthorized', status };
  if (status === 413) return { kind: 'too-large' };
  const json = parseJson(text);
  if (status === 400) {
    // Only the Worker's own refusal counts: a proxy that is badly set up must not turn messages into dead letters.
    const message = readRefusal(json);
    return message === null ? unavailable : { kind: 'invalid', message };
  }
  if (status !== 200) return unavailable;
  const answer = uplinkAnswerSchema.safeParse(json);
  if (!answer.success) return { ...unavailable, cause: 'status 200, but not an answer of the Worker' };
  return { kind: 'answered', results: answer.data.data.results };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function readRefusal(json: unknown): string | null {
  if (typeof json !== 'object' || json === null || !('code' in json) || !('message' in json)) return null;
  return json.code === 400 && typeof json.message === 'string' ? json.message : null;
}

/** Seconds or a date (RFC 9110 10.2.3); 0 where there is none. */
function readRetryAfterMs(header: string | undefined): number {
  if (header === undefined) return 0;
  const waitMs = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isFinite(waitMs) ? Math.min(Math.max(waitMs, 0), maxRetryAfterMs) : 0;
}
