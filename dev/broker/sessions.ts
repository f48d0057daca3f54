// Which client holds which session of the local broker, and why it ended; each beginning and end is reported once. Watches the
// connections themselves: when two connections of a client id cross, aedes' own event names the wrong one or is missing.
import { hash, timingSafeEqual } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { Aedes, Client } from 'aedes';
import type { EndReason, WorkerHooks } from './worker-hooks.ts';

type Session = { client: Client; record: Parameters<WorkerHooks['reportBegin']>[0]; endReason?: EndReason };

export class Sessions {
  readonly #current = new Map<string, Session>();
  readonly #hooks: WorkerHooks;

  /** `usernameOf` answers for clients that have logged in. */
  constructor(aedes: Aedes, hooks: WorkerHooks, usernameOf: (client: Client) => string) {
    this.#hooks = hooks;
    aedes.on('client', (client) => this.#begin(client, usernameOf(client)));
    aedes.on('keepaliveTimeout', (client) => {
      const session = this.#current.get(client.id);
      if (session?.client === client) session.endReason = 'keepalive_timeout';
    });
  }

  has(clientId: string): boolean {
    return this.#current.has(clientId);
  }

  end(clientId: string, reason: EndReason): void {
    const session = this.#current.get(clientId);
    if (session === undefined) return;
    this.#noteEnd(session, reason);
    session.client.close();
  }

  endAll(reason: EndReason): void {
    for (const clientId of [...this.#current.keys()]) this.end(clientId, reason);
  }

  #begin(client: Client, username: string): void {
    const previousAtMs = this.#current.get(client.id)?.record.connected_at ?? 0;
    this.end(client.id, 'takenover');
    // aedes also registers a client whose connection broke while the login was decided.
    if (client.closed || client.conn.destroyed) return;
    const record = { clientid: client.id, username, connected_at: Math.max(Date.now(), previousAtMs + 1) };
    const session: Session = { client, record };
    this.#current.set(client.id, session);
    this.#hooks.reportBegin(record);
    client.conn.once('close', () => this.#noteEnd(session, session.endReason ?? endOf(client)));
  }

  #noteEnd(session: Session, reason: EndReason): void {
    if (this.#current.get(session.client.id) !== session) return;
    this.#current.delete(session.client.id);
    this.#hooks.reportEnd(session.record, reason);
  }
}

function endOf({ conn }: Client): EndReason {
  return conn.errored === null && !conn.readableEnded ? 'normal' : 'tcp_closed';
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
