// The local MQTT broker: aedes behind TCP, TLS and WebSocket. The Worker decides logins and topics and is told of every
// session. MQTT 3.1 and 3.1.1 only. Everything is kept in memory and ends with the process.
import { type EventEmitter, once } from 'node:events';
import { createServer as createHttpServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createServer as createTlsServer } from 'node:tls';
import { Aedes, type AuthenticateError, type Client } from 'aedes';
import { createWebSocketStream, WebSocketServer } from 'ws';
import { SuspensionWatch } from '../../node-service/suspension.ts';
import type { Log } from '../../rig/worker/part-process.ts';
import { bridgeName } from '../../src/domain/topic-rights.ts';
import { type Acl, mayPublish, mayReceive, maySubscribe } from './acl.ts';
import { createAdminServer } from './admin.ts';
import { addressOf, BrokerGate } from './gate.ts';
import type { BrokerLimits } from './limits.ts';
import { askLogin } from './login.ts';
import { LoginPace, PublishPace } from './pace.ts';
import { createSessionReports } from './reports.ts';
import { trackSessions } from './sessions.ts';
import { type CallHook, createHookCaller } from './hook-caller.ts';
import { SessionQueues } from './session-queues.ts';

/** Where a refused message goes instead: nobody may subscribe under `$`. */
const refusedTopic = '$SYS/refused';
const lastReportsMs = 500;
/** MQTT-3.2.2.3 */
const unacceptableVersion = 1;

type BrokerOptions = {
  workerUrl: string;
  hookSecret: string;
  apiKey: string;
  apiSecret: string;
  /** Where devices connect; the admin API stays on loopback. */
  host: string;
  /** 0 takes any free port. */
  mqttPort: number;
  wsPort: number;
  adminPort: number;
  tls: { port: number; cert: Buffer; key: Buffer } | undefined;
  limits: BrokerLimits;
  log: Log;
};

type Login = { username: string; acl: Acl; hasLoggedRefusal: boolean };

export async function startBroker(options: BrokerOptions) {
  const { workerUrl, hookSecret, host, limits, log } = options;
  const callHook = (path: string) => createHookCaller({ url: new URL(path, workerUrl), hookSecret, log });
  const logins = new WeakMap<Client, Login>();
  const queues = new SessionQueues({
    limits: { messages: limits.queuedMessages, bytes: limits.queuedBytes },
    mayReceive: (client, topic) => mayReceive(logins.get(client)?.acl ?? [], topic),
    log,
  });
  const aedes = await createAedes({ callHook: callHook('/hooks/emqx/connect'), logins, queues, limits, log });
  const gate = new BrokerGate(limits, log);
  const serve = (conn: Duplex, request?: IncomingMessage): void => {
    const client = aedes.handle(conn, request);
    gate.watch(client, request);
    queues.adopt(client);
  };
  const tcp = createTcpServer({ noDelay: true }, (socket) => {
    if (gate.admit(socket, 'mqtt')) serve(socket);
  });
  const tls = options.tls && createTlsFront(options.tls, gate, limits, serve);
  const web = createWebSocketFront(gate, limits, serve);
  const suspension = new SuspensionWatch(() => {
    for (const client of connectedClients(aedes)) client._keepaliveTimer?.refresh();
  });
  suspension.start();
  const reports = createSessionReports(callHook('/hooks/emqx/events'), log);
  const sessions = trackSessions(aedes, reports, (client) => logins.get(client)?.username ?? '');
  const admin = createAdminServer({ ...options, kick: sessions.kick, has: sessions.has });
  if (tls !== undefined && options.tls !== undefined) await listen(tls, options.tls.port, host);
  const ready = {
    mqttPort: await listen(tcp, options.mqttPort, host),
    wsPort: await listen(web, options.wsPort, host),
    adminPort: await listen(admin, options.adminPort, '127.0.0.1'),
  };

  async function stop(): Promise<void> {
    suspension.stop();
    tcp.close();
    tls?.close();
    web.close();
    admin.close();
    admin.closeAllConnections();
    sessions.endAll('broker_restart');
    await new Promise<void>((resolve) => aedes.close(resolve));
    await reports.close(lastReportsMs);
  }
  return { ready, stop };
}

type AedesParts = {
  callHook: CallHook;
  logins: WeakMap<Client, Login>;
  queues: SessionQueues;
  limits: BrokerLimits;
  log: Log;
};

async function createAedes({ callHook, logins, queues, limits, log }: AedesParts): Promise<Aedes> {
  const publishes = new PublishPace(limits);
  const attempts = new LoginPace(limits);
  const aedes = await Aedes.createBroker({
    // MQTT 3.1 allows 23 bytes, our client identifiers have up to 77 (field notes 36, 37).
    maxClientsIdLength: 1024,
    connectTimeout: limits.connectSeconds * 1000,
    // A subscriber that does not read delays the deliveries to all others until it is dropped.
    drainTimeout: 10_000,
    authenticate: (client, username, password, done) => {
      authenticate(client, username ?? '', password?.toString() ?? '').then(
        (error) => done(error, error === null),
        (error: unknown) => {
          log('error', 'login_failed', { clientId: client.id, error: String(error) });
          done(refusal(3, 'internal error'), false);
        },
      );
    },
    authorizePublish: (client, packet, done) => {
      const login = client === null ? undefined : logins.get(client);
      if (login === undefined || !mayPublish(login.acl, packet)) {
        // An error here would make aedes cut the connection, and MQTT 3.1.1 has no way to say no: like EMQX's
        // default, acknowledge and drop.
        noteRefusal(client, login, packet.topic);
        packet.topic = refusedTopic;
        packet.retain = false;
        packet.payload = Buffer.alloc(0);
      }
      const proceed = () => queues.whenRoom(client, () => done(null));
      // What the bridge publishes is what others ask for.
      if (client === null || login?.username === bridgeName) proceed();
      else publishes.run(client, proceed);
    },
    authorizeSubscribe: (client, subscription, done) => {
      const login = logins.get(client);
      const isAllowed = login !== undefined && maySubscribe(login.acl, subscription.topic);
      if (!isAllowed) log('warn', 'subscription_refused', { clientId: client.id, filter: subscription.topic });
      done(null, isAllowed ? subscription : null);
    },
    authorizeForward: (client, packet) => {
      const login = logins.get(client);
      return login !== undefined && mayReceive(login.acl, packet.topic) ? packet : null;
    },
  });
  queues.takeOver(aedes);
  aedes.on('connectionError', (client, error: Error & { errorCode?: number }) => {
    if (error.errorCode === unacceptableVersion) {
      const hint = 'the local broker speaks MQTT 3.1 and 3.1.1; MQTT 5 is spoken at the edge address';
      log('warn', 'mqtt_version_refused', { address: addressOf(client), hint });
      return;
    }
    log('info', 'connection_ended', { address: addressOf(client), error: error.message });
  });
  // The published types leave this event out.
  (aedes as EventEmitter).on('error', (error: unknown) => {
    log('error', 'broker_error', { error: String(error) });
  });
  return aedes;

  async function authenticate(client: Client, username: string, password: string): Promise<AuthenticateError | null> {
    const peerhost = addressOf(client);
    const request = { clientid: client.id, username, password, peerhost, proto_ver: client.version };
    await attempts.wait(peerhost);
    if (client.closed) return refusal(3, 'the client has left');
    const answer = await askLogin(callHook, request);
    if (answer.allowed) {
      logins.set(client, { username, acl: answer.acl, hasLoggedRefusal: false });
      return null;
    }
    attempts.noteRefusal(peerhost);
    log('info', 'login_refused', { clientId: client.id, username, peerhost, reason: answer.reason });
    return refusal(answer.returnCode, answer.reason);
  }

  /** Once a connection: a device that keeps trying must not fill the log. */
  function noteRefusal(client: Client | null, login: Login | undefined, topic: string): void {
    if (login?.hasLoggedRefusal === true) return;
    if (login !== undefined) login.hasLoggedRefusal = true;
    log('warn', 'publish_refused', { clientId: client?.id, topic });
  }
}

function refusal(returnCode: 2 | 3 | 4 | 5, reason: string): AuthenticateError {
  // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- an ambient const enum: no value at run time
  return Object.assign(new Error(reason), { returnCode });
}

/** A client that was suspended with this machine could not ping: its keep-alive begins anew. */
function connectedClients(aedes: Aedes): { _keepaliveTimer: NodeJS.Timeout | null }[] {
  const { clients } = aedes as unknown as { clients: Record<string, { _keepaliveTimer: NodeJS.Timeout | null }> };
  return Object.values(clients);
}

function createTlsFront(
  { cert, key }: { cert: Buffer; key: Buffer },
  gate: BrokerGate,
  { connectSeconds }: BrokerLimits,
  serve: (conn: Duplex) => void,
): Server {
  const server = createTlsServer({ cert, key, noDelay: true, handshakeTimeout: connectSeconds * 1000 }, serve);
  server.prependListener('connection', (socket: Socket) => gate.admit(socket, 'http'));
  // A client that does not trust the authority hangs up.
  server.on('tlsClientError', (_error, socket) => socket.destroy());
  return server;
}

function createWebSocketFront(
  gate: BrokerGate,
  { packetBytes, connectSeconds }: BrokerLimits,
  serve: (conn: Duplex, request: IncomingMessage) => void,
): Server {
  const timeouts = { headersTimeout: connectSeconds * 1000, requestTimeout: connectSeconds * 1000 };
  const http = createHttpServer({ ...timeouts, connectionsCheckingInterval: 1_000 }, (_request, response) => {
    response
      .writeHead(426, { 'content-type': 'text/plain', connection: 'close' })
      .end('This is MQTT over WebSocket.\n');
  });
  http.prependListener('connection', (socket) => gate.admit(socket, 'http'));
  const sockets = new WebSocketServer({
    server: http,
    perMessageDeflate: false,
    maxPayload: packetBytes,
    handleProtocols: (offered) => ['mqtt', 'mqttv3.1'].find((name) => offered.has(name)) ?? false,
  });
  sockets.on('connection', (socket, request) => {
    const conn = createWebSocketStream(socket);
    // By itself it would end and never close.
    socket.once('close', () => conn.destroy());
    serve(conn, request);
  });
  // `listen` reports the same error of the HTTP server.
  sockets.on('error', () => undefined);
  return http;
}

async function listen(server: Server, port: number, host: string): Promise<number> {
  await once(server.listen(port, host), 'listening');
  return (server.address() as AddressInfo).port;
}
