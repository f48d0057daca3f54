// Asks the Worker's connect hook whether a client may log in, with the request a hosted EMQX would send. The broker
// decides nothing itself: no answer means "server unavailable", never "welcome".
import { z } from 'zod';
import { type Acl, aclSchema } from './broker-acl.ts';
import type { Log } from './json-log.ts';

const answerTimeoutMs = 5_000;
/** Logins asked about at once; a reconnect storm waits here instead of opening a socket to the Worker per device. */
const maxParallelQuestions = 64;

type LoginRequest = {
  clientid: string;
  username: string;
  password: string;
  peerhost: string;
  proto_ver: number;
};
/** `returnCode` is MQTT 3.1.1's CONNACK code (MQTT-3.2.2.3). */
type LoginAnswer = { allowed: true; acl: Acl } | { allowed: false; returnCode: 2 | 3 | 4 | 5; reason: string };

const answerSchema = z.object({
  result: z.enum(['allow', 'deny', 'ignore']),
  message: z.string().optional(),
  acl: aclSchema.optional(),
});

export type LoginHook = (request: LoginRequest) => Promise<LoginAnswer>;

export function createLoginHook(options: { workerUrl: string; hookSecret: string; log: Log }): LoginHook {
  const { workerUrl, hookSecret, log } = options;
  const url = new URL('/hooks/emqx/connect', workerUrl);
  const headers = { authorization: `Bearer ${hookSecret}`, 'content-type': 'application/json' };
  const waiting: (() => void)[] = [];
  let running = 0;
  let isOutageLogged = false;

  async function takeTurn(): Promise<void> {
    if (running < maxParallelQuestions) running += 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
  }

  function passTurn(): void {
    const next = waiting.shift();
    if (next === undefined) running -= 1;
    else next();
  }

  function refuseForOutage(reason: string): LoginAnswer {
    if (!isOutageLogged) log('warn', 'login_hook_unavailable', { reason });
    isOutageLogged = true;
    return { allowed: false, returnCode: 3, reason };
  }

  return async (request) => {
    // The clock starts on arrival, so that a hung Worker cannot make a queue of logins wait for each other.
    const signal = AbortSignal.timeout(answerTimeoutMs);
    await takeTurn();
    try {
      const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(request), signal });
      const text = await response.text();
      if (response.status !== 200) return refuseForOutage(`the connect hook answered ${response.status}`);
      const parsed = answerSchema.safeParse(parseJson(text));
      if (!parsed.success) return refuseForOutage('the connect hook answered something unreadable');
      isOutageLogged = false;
      return readAnswer(parsed.data);
    } catch (error) {
      return refuseForOutage(describeFailure(error));
    } finally {
      passTurn();
    }
  };
}

function readAnswer(answer: z.infer<typeof answerSchema>): LoginAnswer {
  if (answer.result === 'allow') return { allowed: true, acl: answer.acl ?? [] };
  const reason = answer.message ?? 'not authorized';
  if (reason === 'invalid_password') return { allowed: false, returnCode: 4, reason };
  if (reason === 'invalid_client_id') return { allowed: false, returnCode: 2, reason };
  return { allowed: false, returnCode: 5, reason };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** fetch says "fetch failed" and keeps what happened in `cause`. */
export function describeFailure(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message : error.message;
}
