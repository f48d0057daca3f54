// Which client holds which session, from the moment the broker accepted it to the end of its connection; both are
// reported once. Goes by the connection itself: aedes' own disconnect event is missing or names the wrong client when an
// old and a new connection of one client id cross.
import type { Aedes, Client } from 'aedes';
import type { EndReason, SessionRecord, SessionReports } from './reports.ts';

type Session = SessionRecord & { client: Client; endReason?: EndReason };

/** `usernameOf` answers for clients that have logged in. */
export function trackSessions(aedes: Aedes, reports: SessionReports, usernameOf: (client: Client) => string) {
  const current = new Map<string, Session>();

  function open(client: Client): void {
    const previous = current.get(client.id);
    if (previous !== undefined) end(previous, 'takenover');
    // aedes registers a client even when its connection went while the login was being decided.
    if (client.closed || client.conn.destroyed) return;
    const connectedAtMs = Math.max(Date.now(), (previous?.connectedAtMs ?? 0) + 1);
    const session: Session = { client, clientId: client.id, username: usernameOf(client), connectedAtMs };
    current.set(client.id, session);
    reports.opened(session);
    client.conn.once('close', () => {
      end(session, session.endReason ?? (hasSentDisconnect(client) ? 'normal' : 'tcp_closed'));
    });
  }

  function end(session: Session, reason: EndReason): void {
    if (current.get(session.clientId) !== session) return;
    current.delete(session.clientId);
    reports.ended(session, reason);
  }

  function kick(clientId: string): boolean {
    const session = current.get(clientId);
    if (session === undefined) return false;
    session.endReason = 'kicked';
    session.client.close();
    return true;
  }

  aedes.on('client', open);
  aedes.on('keepaliveTimeout', (client) => {
    const session = current.get(client.id);
    if (session?.client === client) session.endReason = 'keepalive_timeout';
  });
  aedes.on('clientDisconnect', (client) => {
    const session = current.get(client.id);
    if (session !== undefined && session.client !== client) keepRegistered(aedes, session.client);
  });

  function endAll(reason: EndReason): void {
    for (const session of [...current.values()]) end(session, reason);
  }
  return { kick, endAll, has: (clientId: string) => current.has(clientId) };
}

/**
 * aedes removes by client id: an old connection that finishes closing after the new one was registered takes the new
 * one off its list, and the next takeover or kick would not find it.
 */
function keepRegistered(aedes: Aedes, client: Client): void {
  const { clients } = aedes as unknown as { clients: Record<string, Client> };
  clients[client.id] = client;
}

/** Whether the client sent DISCONNECT; aedes keeps that in a field it does not publish. */
function hasSentDisconnect(client: Client): boolean {
  return (client as unknown as { _disconnected: boolean })._disconnected;
}
