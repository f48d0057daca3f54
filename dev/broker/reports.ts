// Reports to the Worker's events hook which sessions began and ended: per client in order, again with back-off until
// accepted. Kept in memory alone: a broker that is killed reports nothing of the sessions it had, and the Worker finds out
// by itself. Knows nothing of MQTT.
import { setTimeout as sleep } from 'node:timers/promises';
import type { CallHook } from './hook-caller.ts';
import type { Log } from '../../rig/worker/part-process.ts';

const firstRetryMs = 100;
const longestRetryMs = 3_000;

export type EndReason = 'normal' | 'tcp_closed' | 'keepalive_timeout' | 'takenover' | 'kicked' | 'broker_restart';
export type SessionRecord = { clientId: string; username: string; connectedAtMs: number };

export type SessionReports = {
  opened: (session: SessionRecord) => void;
  ended: (session: SessionRecord, reason: EndReason) => void;
  /** Waits that long for what can still be delivered, and drops the rest. */
  close: (patienceMs: number) => Promise<void>;
};

export function createSessionReports(callHook: CallHook, log: Log): SessionReports {
  /** By client: resolves when its last report so far is accepted or dropped. */
  const deliveries = new Map<string, Promise<void>>();
  let isClosed = false;

  function report(
    event: string,
    { clientId, username, connectedAtMs }: SessionRecord,
    details: { timestamp: number; disconnected_at?: number; reason?: EndReason },
  ): void {
    const body = { event, clientid: clientId, username, connected_at: connectedAtMs, ...details };
    const previous = deliveries.get(clientId) ?? Promise.resolve();
    const delivery: Promise<void> = previous
      .then(() => deliver(body))
      .then(() => {
        if (deliveries.get(clientId) === delivery) deliveries.delete(clientId);
      });
    deliveries.set(clientId, delivery);
  }

  async function deliver(body: object): Promise<void> {
    for (let attempt = 0; !isClosed; attempt += 1) {
      const answer = await callHook(body);
      if (!('failure' in answer)) {
        // Another attempt cannot make the Worker understand a report that it could not read.
        if (answer.status === 400) log('error', 'report_not_understood', { body, answer: answer.body });
        return;
      }
      const ceilingMs = Math.min(longestRetryMs, firstRetryMs * 2 ** attempt);
      await sleep(ceilingMs * (0.5 + Math.random() / 2), undefined, { ref: false });
    }
  }

  return {
    opened: (session) => report('client.connected', session, { timestamp: session.connectedAtMs }),
    ended: (session, reason) => {
      const endedAtMs = Math.max(Date.now(), session.connectedAtMs);
      report('client.disconnected', session, { disconnected_at: endedAtMs, reason, timestamp: endedAtMs });
    },
    close: async (patienceMs) => {
      await Promise.race([Promise.all(deliveries.values()), sleep(patienceMs)]);
      isClosed = true;
    },
  };
}
