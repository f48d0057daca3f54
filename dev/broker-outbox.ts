// Tells the Worker's events hook which sessions began and ended: per client in order, until accepted. Kept in SQLite
// together with the list of open sessions, so that a broker that was killed reports at its next start that they
// ended. Knows nothing of MQTT.
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { describeFailure } from './broker-login.ts';
import type { Log } from './json-log.ts';

const sendTimeoutMs = 5_000;
const maxParallelClients = 32;
const firstRetryMs = 100;
const longestRetryMs = 3_000;

export type EndReason = 'normal' | 'tcp_closed' | 'keepalive_timeout' | 'takenover' | 'kicked' | 'broker_restart';
export type SessionRecord = { clientId: string; username: string; connectedAtMs: number };

export type Outbox = {
  recordOpened: (session: SessionRecord) => void;
  recordEnded: (session: SessionRecord, reason: EndReason) => void;
  countPending: () => number;
  /** Waits for the events that can be delivered in that time; the rest is sent at the next start. */
  close: (patienceMs: number) => Promise<void>;
};

type StoredEvent = { seq: number; body: string };

export function openOutbox(options: { path: string; workerUrl: string; hookSecret: string; log: Log }): Outbox {
  const { path, workerUrl, hookSecret, log } = options;
  const url = new URL('/hooks/emqx/events', workerUrl);
  const headers = { authorization: `Bearer ${hookSecret}`, 'content-type': 'application/json' };
  const queues = new Map<string, StoredEvent[]>();
  const ready: string[] = [];
  const stopping = new AbortController();
  let sending = 0;
  let failuresInARow = 0;

  const db = new DatabaseSync(path);
  // WAL without a sync per commit survives a killed process, which is the case here; a power cut may cost the last.
  db.exec(`
    PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
    CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY AUTOINCREMENT, client_id TEXT NOT NULL, body TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS sessions (client_id TEXT PRIMARY KEY, username TEXT NOT NULL, connected_at INTEGER NOT NULL);
  `);
  const insertEvent = db.prepare('INSERT INTO events (client_id, body) VALUES (?, ?)');
  const deleteEvent = db.prepare('DELETE FROM events WHERE seq = ?');
  const insertSession = db.prepare(
    'INSERT OR REPLACE INTO sessions (client_id, username, connected_at) VALUES (?, ?, ?)',
  );
  const deleteSession = db.prepare('DELETE FROM sessions WHERE client_id = ? AND connected_at = ?');

  for (const row of db.prepare('SELECT seq, client_id, body FROM events ORDER BY seq').all()) {
    enqueue(String(row['client_id']), { seq: Number(row['seq']), body: String(row['body']) });
  }
  const orphans = db.prepare('SELECT client_id, username, connected_at FROM sessions').all();
  for (const row of orphans) {
    const session = { clientId: String(row['client_id']), username: String(row['username']) };
    recordEnded({ ...session, connectedAtMs: Number(row['connected_at']) }, 'broker_restart');
  }
  if (orphans.length > 0) log('info', 'orphaned_sessions_ended', { count: orphans.length });

  function recordOpened(session: SessionRecord): void {
    const { clientId, username, connectedAtMs } = session;
    const event = { event: 'client.connected', clientid: clientId, username, connected_at: connectedAtMs };
    store(clientId, { ...event, timestamp: connectedAtMs }, () => {
      insertSession.run(clientId, username, connectedAtMs);
    });
  }

  function recordEnded(session: SessionRecord, reason: EndReason): void {
    const { clientId, username, connectedAtMs } = session;
    const endedAtMs = Math.max(Date.now(), connectedAtMs);
    const event = { event: 'client.disconnected', clientid: clientId, username, connected_at: connectedAtMs };
    store(clientId, { ...event, disconnected_at: endedAtMs, reason, timestamp: endedAtMs }, () => {
      deleteSession.run(clientId, connectedAtMs);
    });
  }

  function store(clientId: string, event: Record<string, unknown>, changeSession: () => void): void {
    const body = JSON.stringify(event);
    db.exec('BEGIN');
    changeSession();
    const { lastInsertRowid } = insertEvent.run(clientId, body);
    db.exec('COMMIT');
    enqueue(clientId, { seq: Number(lastInsertRowid), body });
  }

  function enqueue(clientId: string, event: StoredEvent): void {
    const queue = queues.get(clientId);
    if (queue !== undefined) {
      queue.push(event);
      return;
    }
    queues.set(clientId, [event]);
    ready.push(clientId);
    startSenders();
  }

  function startSenders(): void {
    while (sending < maxParallelClients && ready.length > 0 && !stopping.signal.aborted) {
      const clientId = ready.shift();
      if (clientId === undefined) return;
      sending += 1;
      void sendAll(clientId).finally(() => {
        sending -= 1;
        startSenders();
      });
    }
  }

  async function sendAll(clientId: string): Promise<void> {
    const queue = queues.get(clientId) ?? [];
    for (let event = queue[0]; event !== undefined; event = queue[0]) {
      const isSettled = await send(clientId, event);
      if (stopping.signal.aborted) return;
      if (!isSettled) {
        await waitForRetry();
        continue;
      }
      deleteEvent.run(event.seq);
      queue.shift();
    }
    queues.delete(clientId);
  }

  /** true when the event is done with: accepted, or of a kind that no retry can help. */
  async function send(clientId: string, event: StoredEvent): Promise<boolean> {
    try {
      const signal = AbortSignal.any([stopping.signal, AbortSignal.timeout(sendTimeoutMs)]);
      const response = await fetch(url, { method: 'POST', headers, body: event.body, signal });
      const text = await response.text();
      if (response.ok) {
        failuresInARow = 0;
        return true;
      }
      // Waiting cannot make the Worker understand an event that it could not read.
      if (response.status === 400) {
        log('error', 'event_not_understood', { clientId, body: event.body, answer: text.slice(0, 200) });
        return true;
      }
      noteFailure(`the events hook answered ${response.status}`);
    } catch (error) {
      if (!stopping.signal.aborted) noteFailure(describeFailure(error));
    }
    return false;
  }

  function noteFailure(reason: string): void {
    failuresInARow += 1;
    if (failuresInARow === 1) log('warn', 'events_hook_unavailable', { reason });
  }

  async function waitForRetry(): Promise<void> {
    const ceilingMs = Math.min(longestRetryMs, firstRetryMs * 2 ** Math.min(failuresInARow, 10));
    try {
      await sleep(ceilingMs * (0.5 + Math.random() / 2), undefined, { signal: stopping.signal });
    } catch {
      // Only the broker's own end interrupts the wait.
    }
  }

  async function close(patienceMs: number): Promise<void> {
    const deadlineMs = Date.now() + patienceMs;
    while (queues.size > 0 && failuresInARow === 0 && Date.now() < deadlineMs) await sleep(10);
    stopping.abort();
    while (sending > 0) await sleep(5);
    db.close();
  }

  return { recordOpened, recordEnded, countPending: () => queues.size, close };
}
