// Posts to the Worker's broker hooks with the hook secret, a time limit and a limit of requests at once: a reconnect
// storm waits here instead of opening a socket to the Worker per device. Retries nothing.
import { describeFailure } from '../../rig/clients/api.ts';
import type { Log } from '../../rig/worker/part-process.ts';

const answerTimeoutMs = 5_000;
const maxAtOnce = 64;

/** `failure` says why there was no JSON or empty answer with 2xx or 400. */
type HookAnswer = { status: number; body: unknown } | { failure: string };
export type CallHook = (body: unknown) => Promise<HookAnswer>;

/** Logs the beginning of an outage once. */
export function createHookCaller(options: { url: URL; hookSecret: string; log: Log }): CallHook {
  const { url, hookSecret, log } = options;
  const headers = { authorization: `Bearer ${hookSecret}`, 'content-type': 'application/json' };
  const waiting: (() => void)[] = [];
  let running = 0;
  let isOutageLogged = false;

  async function post(body: unknown, signal: AbortSignal): Promise<HookAnswer> {
    try {
      const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body), signal });
      const { status } = response;
      const text = await response.text();
      if (!response.ok && status !== 400) return { failure: `${url.pathname} answered ${status}` };
      return { status, body: text === '' ? null : (JSON.parse(text) as unknown) };
    } catch (error) {
      return { failure: describeFailure(error) };
    }
  }

  return async (body) => {
    // The clock starts on arrival, so that a hung Worker cannot make the queue wait for each of its requests in turn.
    const signal = AbortSignal.timeout(answerTimeoutMs);
    if (running < maxAtOnce) running += 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    const answer = await post(body, signal);
    const next = waiting.shift();
    if (next === undefined) running -= 1;
    else next();
    if ('failure' in answer && !isOutageLogged) log('warn', 'hook_unavailable', { reason: answer.failure });
    isOutageLogged = 'failure' in answer;
    return answer;
  };
}
