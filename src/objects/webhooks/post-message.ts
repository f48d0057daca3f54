// One signed request to a webhook's receiver: no redirects, 10 s in all, 4 KiB of the answer. A failure is a value. It decides
// nothing about what a failure means.
import { signedContent, signWebhook } from '../../crypto/webhook-signature.ts';
import { secondMs, toIso } from '../../domain/time.ts';
import type { WebhookProblem } from '../../protocol/vocabulary.ts';

export const answerWithinMs = 10 * secondMs;
/** If a user waits for it: clients give a request up after ten seconds. */
const answerToUserWithinMs = 8 * secondMs;
const maxAnswerBytes = 4_096;

export type Message = { id: string; type: string; timeMs: number; data: Record<string, unknown>; isForUser?: true };

/** `status` is null if no answer came: `problem` says why. */
export type Attempt = {
  messageId: string;
  /** The exact text that the signature covers. */
  signed: string;
  signature: string;
  at: string;
  status: number | null;
  problem: WebhookProblem | null;
  tookMs: number;
  answer: string;
};

export async function postMessage(url: string, secrets: readonly string[], message: Message): Promise<Attempt> {
  const { id, type, timeMs, data, isForUser } = message;
  const startedAtMs = Date.now();
  const body = JSON.stringify({ type, timestamp: toIso(timeMs), data });
  const timestamp = Math.floor(startedAtMs / secondMs);
  const signature = await signWebhook(secrets, { id, timestamp, body });
  const about = { messageId: id, signed: signedContent({ id, timestamp, body }), signature, at: toIso(startedAtMs) };
  const headers = {
    'Content-Type': 'application/json',
    'User-Agent': 'Latchwork-Webhooks/1',
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': signature,
  };
  // Every sealing secret that opens them was removed: a message without a signature is never sent.
  if (secrets.length === 0) return { ...about, status: null, problem: 'secret_lost', tookMs: 0, answer: '' };
  const signal = AbortSignal.timeout(isForUser ? answerToUserWithinMs : answerWithinMs);
  try {
    const response = await fetch(url, { method: 'POST', headers, body, redirect: 'manual', signal });
    const answer = await readBeginning(response);
    return { ...about, status: response.status, problem: null, tookMs: Date.now() - startedAtMs, answer };
  } catch (error) {
    // Beside the time-out the platform's errors differ by cause and version.
    const problem = error instanceof Error && error.name === 'TimeoutError' ? 'timeout' : 'unreachable';
    return { ...about, status: null, problem, tookMs: Date.now() - startedAtMs, answer: '' };
  }
}

export function isDelivered({ status }: Attempt): boolean {
  return status !== null && status >= 200 && status < 300;
}

/** A small answer is read to its end, so that the connection can be used again. The status counts even if the body breaks off. */
async function readBeginning({ body }: Response): Promise<string> {
  if (body === null) return '';
  const reader = (body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  let text = '';
  for (let bytes = 0; bytes < maxAnswerBytes;) {
    const value = await reader.read().then(
      (read) => read.value,
      // The receiver broke off, or the time is over.
      () => undefined,
    );
    if (value === undefined) return text;
    text += decoder.decode(value.subarray(0, maxAnswerBytes - bytes), { stream: true });
    bytes += value.byteLength;
  }
  await reader.cancel();
  return text;
}
