// Which client holds which session of the local broker, and why it ended; each beginning and end is reported once. Watches the
// connections themselves: when two connections of a client id cross, aedes' own event names the wrong one or is missing.
import { hash, timingSafeEqual } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { Aedes, Client } from 'aedes';
import type { EndReason, WorkerHooks } from './worker-hooks.ts';

type Session = { client: Client; startedAtMs: number };

export type Sessions = ReturnType<typeof watchSessions>;

export function watchSessions(aedes: Aedes, hooks: WorkerHooks) {
  const current = new Map<string, Session>();
  aedes.on('client', begin);
  aedes.on('keepaliveTimeout', (client) => noteEnd(client, 'keepalive_timeout'));
  const endAll = (reason: EndReason) => [...current.keys()].forEach((clientId) => end(clientId, reason));
  return { has: (clientId: string) => current.has(clientId), end, endAll };

  function end(clientId: string, reason: EndReason): void {
    const client = current.get(clientId)?.client;
    if (client === undefined) return;
    noteEnd(client, reason);
    client.close();
  }

  function begin(client: Client): void {
    const { id: clientid, conn } = client;
    const previousAtMs = current.get(clientid)?.startedAtMs ?? 0;
    end(clientid, 'takenover');
    // aedes also registers a client whose connection broke while the login was decided.
    if (client.closed || conn.destroyed) return;
    const startedAtMs = Math.max(Date.now(), previousAtMs + 1);
    current.set(clientid, { client, startedAtMs });
    hooks.report({ event: 'client.connected', clientid, connected_at: startedAtMs });
    conn.once('close', () => {
      noteEnd(client, conn.errored === null && !conn.readableEnded ? 'normal' : 'tcp_closed');
    });
  }

  function noteEnd(client: Client, reason: EndReason): void {
    const { id: clientid } = client;
    const session = current.get(clientid);
    if (session?.client !== client) return;
    current.delete(clientid);
    const { startedAtMs: connected_at } = session;
    const disconnected_at = Math.max(Date.now(), connected_at);
    hooks.report({ event: 'client.disconnected', clientid, connected_at, disconnected_at, reason });
  }
}

/** The two calls of EMQX's management API that the Worker makes: whether a client is connected, and the end of its session. */
export function createAdminServer(sessions: Sessions, apiKey: string, apiSecret: string): Server {
  const digestOf = (text = '') => hash('sha256', text, 'buffer');
  const expected = digestOf(`Basic ${Buffer.from(`${apiKey}:${apiSecret}`).toString('base64')}`);
  return createServer(({ url = '', method, headers }, response) => {
    const clientId = decodeURIComponent(/^\/api\/v5\/clients\/([^/]+)$/.exec(url)?.[1] ?? '');
    if (!timingSafeEqual(digestOf(headers.authorization), expected)) response.writeHead(401).end();
    else if (!sessions.has(clientId)) response.writeHead(404).end('{"code":"CLIENTID_NOT_FOUND"}');
    else if (method === 'GET') {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ clientid: clientId, connected: true }));
    } else if (method === 'DELETE') {
      sessions.end(clientId, 'kicked');
      response.writeHead(204).end();
    } else response.writeHead(405).end();
  });
}
