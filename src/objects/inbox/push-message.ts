// One push message to the push service of a browser (RFC 8030): no redirects, 10 s in all, nothing of the answer is read. A failure
// is a value. It decides nothing about what is pushed, when, or to whom.
import { encryptPush, signVapid, type VapidKeys } from '../../crypto/web-push.ts';
import { dayMs, secondMs } from '../../domain/time.ts';
import { describeError, log } from '../../log.ts';
import type { PushSubscriptionBody } from '../../protocol/http/notices.ts';

/** `gone`: the subscription has ended and never takes a message again. */
export type PushOutcome = 'sent' | 'gone' | 'failed';

const answerWithinMs = 10 * secondMs;
const lifeSeconds = dayMs / 1000;

/** @param topic at most 32 characters of base64url: a message replaces one of the same topic that still waits for the browser */
export async function pushMessage(
  keys: VapidKeys,
  { endpoint, keys: browserKeys }: PushSubscriptionBody,
  payload: string,
  topic: string,
): Promise<PushOutcome> {
  // The rest of the address lets everybody push who knows it.
  const { host } = new URL(endpoint);
  try {
    const headers = {
      Authorization: await signVapid(keys, endpoint),
      'Content-Encoding': 'aes128gcm',
      'Content-Type': 'application/octet-stream',
      TTL: String(lifeSeconds),
      Topic: topic,
      // Phones that save power get other messages late.
      Urgency: 'high',
    };
    const body = await encryptPush(payload, browserKeys);
    const signal = AbortSignal.timeout(answerWithinMs);
    const answer = await fetch(endpoint, { method: 'POST', headers, body, redirect: 'manual', signal });
    await answer.body?.cancel();
    const { ok, status } = answer;
    if (!ok) log('warn', 'push refused', { host, status });
    if (status === 404 || status === 410) return 'gone';
    return ok ? 'sent' : 'failed';
  } catch (error) {
    log('warn', 'push failed', { host, ...describeError(error) });
    // WebCrypto's error for a key of the browser that is no key.
    return error instanceof DOMException && error.name === 'DataError' ? 'gone' : 'failed';
  }
}
