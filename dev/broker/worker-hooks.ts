// The local broker's calls of the Worker: whether a client may log in, and which sessions began and ended. They are the
// requests of a hosted EMQX. Knows nothing of MQTT connections.
import { setTimeout as sleep } from 'node:timers/promises';
import { describeFailure } from '../../rig/clients/api.ts';
import type { Log } from '../../rig/worker/part-process.ts';
import type { TopicRight } from '../../src/domain/topic-rights.ts';

const answerWithinMs = 5_000;
const retryAfterMs = 500;

type LoginRequest = { clientid: string; username: string; password: string; peerhost: string; proto_ver: number };
/** `returnCode` is MQTT 3.1.1's CONNACK code (MQTT-3.2.2.3). */
type LoginAnswer = { rights: TopicRight[] } | { returnCode: 2 | 4 | 5; reason: string };

export type EndReason = 'normal' | 'tcp_closed' | 'keepalive_timeout' | 'takenover' | 'kicked' | 'broker_restart';
type SessionEvent = { clientid: string; connected_at: number } & (
  { event: 'client.connected' } | { event: 'client.disconnected'; disconnected_at: number; reason: EndReason }
);

const returnCodes: Record<string, 2 | 4> = { invalid_password: 4, invalid_client_id: 2 };

/** What the Worker writes (src/routes/broker-hooks/emqx.ts). */
type HookAnswer = { result: 'allow'; acl: Rule[] } | { result: 'deny'; message: string };
type Rule = { permission: 'allow'; action: TopicRight['action']; topic: string; retain?: boolean } | DenyAll;
type DenyAll = { permission: 'deny'; action: 'all'; topic: '#' };

export type WorkerHooks = ReturnType<typeof createWorkerHooks>;

export function createWorkerHooks(workerUrl: string, hookSecret: string, log: Log) {
  /** By client: resolves when all reports so far were accepted, so that they stay in order. */
  const reports = new Map<string, Promise<void>>();
  let isClosed = false;
  return { askLogin, report, reportRefused, close };

  /** @throws Error if the Worker does not answer */
  async function askLogin(request: LoginRequest): Promise<LoginAnswer> {
    const response = await post('connect', request);
    const answer = (await response.json()) as HookAnswer;
    if (answer.result === 'deny') return { returnCode: returnCodes[answer.message] ?? 5, reason: answer.message };
    // The last rule denies the rest, as a topic without a right is refused anyway. `eq` matches the text literally.
    const rights = answer.acl.flatMap((rule) => {
      if (rule.permission === 'deny') return [];
      const { action, topic, retain: mayRetain = true } = rule;
      return { action, topic: topic.replace(/^eq /, ''), isExact: topic.startsWith('eq '), mayRetain };
    });
    return { rights };
  }

  function report(event: SessionEvent): void {
    const { clientid: clientId } = event;
    const delivered: Promise<void> = (reports.get(clientId) ?? Promise.resolve())
      .then(() => deliver(event))
      .then(() => {
        if (reports.get(clientId) === delivered) reports.delete(clientId);
      });
    reports.set(clientId, delivered);
  }

  /** The Worker, asked for the right of a publish that was refused here, tells the device's owner. */
  function reportRefused(publish: { username: string; topic: string; retain: boolean }): void {
    const told = post('authz', { ...publish, action: 'publish' }).then((answer) => answer.arrayBuffer());
    told.catch((error: unknown) => {
      log('warn', 'refused_publish_not_reported', { reason: describeFailure(error), ...publish });
    });
  }

  /** Waits that long for reports under way and drops the rest: the Worker notices by itself. */
  async function close(patienceMs: number): Promise<void> {
    await Promise.race([Promise.all(reports.values()), sleep(patienceMs)]);
    isClosed = true;
  }

  async function deliver(body: SessionEvent): Promise<void> {
    for (let attempt = 1; !isClosed; attempt += 1) {
      try {
        await (await post('events', body)).arrayBuffer();
        return;
      } catch (error) {
        if (attempt === 1) log('warn', 'report_not_delivered', { reason: describeFailure(error), body });
      }
      await sleep(retryAfterMs, undefined, { ref: false });
    }
  }

  /** @throws Error if the Worker does not answer with success */
  async function post(hook: 'connect' | 'authz' | 'events', body: object): Promise<Response> {
    const response = await fetch(new URL(`/hooks/emqx/${hook}`, workerUrl), {
      method: 'POST',
      headers: { authorization: `Bearer ${hookSecret}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(answerWithinMs),
    });
    if (!response.ok) throw new Error(`the Worker answered ${response.status}`);
    return response;
  }
}
