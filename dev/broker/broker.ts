// The local broker as a process: aedes behind TCP, TLS and WebSocket, settings from the environment. The Worker decides logins
// and topics and is told of every session. MQTT 3.1 and 3.1.1 only, everything in memory. It is for a laptop.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer as createHttpServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net';
import type { Duplex } from 'node:stream';
import { createServer as createTlsServer } from 'node:tls';
import { Aedes, type AuthenticateError, type Client } from 'aedes';
import { createWebSocketStream, WebSocketServer } from 'ws';
import { createJsonLog, requireSetting, runPart } from '../../rig/worker/part-process.ts';
import { type Acl, mayPublish, mayReceive, maySubscribe } from './acl.ts';
import { createAdminServer, Sessions } from './sessions.ts';
import { WorkerHooks } from './worker-hooks.ts';

/** Where a refused message goes instead: nobody may subscribe under `$`. */
const refusedTopic = '$SYS/refused';
const connectWithinMs = 10_000;
const lastReportsMs = 500;

type Login = { username: string; acl: Acl; hasLoggedRefusal: boolean };

const log = createJsonLog('broker');
const env = process.env;
const logins = new WeakMap<Client, Login>();

runPart(log, async () => {
  const [workerUrl, hookSecret] = [requireSetting('WORKER_URL'), requireSetting('BROKER_HOOK_SECRET')];
  const hooks = new WorkerHooks({ workerUrl, hookSecret, log });
  const aedes = await createBroker(hooks);
  const sessions = new Sessions(aedes, hooks, (client) => logins.get(client)?.username ?? '');
  const host = env['BIND_HOST'] ?? '127.0.0.1';
  const admin = createAdminServer(sessions, requireSetting('BROKER_API_KEY'), requireSetting('BROKER_API_SECRET'));
  const tcp = createTcpServer({ noDelay: true }, aedes.handle);
  const web = createWebSocketFront(aedes);
  const tls = createTlsFront(aedes);
  if (tls !== undefined) await listen(tls, Number(env['MQTT_TLS_PORT']), host);
  const ready = {
    mqttPort: await listen(tcp, Number(env['MQTT_PORT'] ?? 1883), host),
    wsPort: await listen(web, Number(env['MQTT_WS_PORT'] ?? 8083), host),
    // Only the Worker calls it.
    adminPort: await listen(admin, Number(env['BROKER_ADMIN_PORT'] ?? 18083), '127.0.0.1'),
  };

  async function stop(): Promise<void> {
    for (const server of [tcp, tls, web, admin]) server?.close();
    sessions.endAll('broker_restart');
    await new Promise<void>((resolve) => aedes.close(resolve));
    await hooks.close(lastReportsMs);
  }
  return { ready, stop };
});

function createBroker(hooks: WorkerHooks): Promise<Aedes> {
  return Aedes.createBroker({
    // MQTT 3.1 allows 23 bytes, our client identifiers have up to 77 (field notes 36, 37).
    maxClientsIdLength: 1024,
    connectTimeout: connectWithinMs,
    preConnect: (client, { protocolVersion }, done) => {
      if (protocolVersion === 5) {
        const hint = 'the local broker speaks MQTT 3.1 and 3.1.1; MQTT 5 is spoken on a direct connection address';
        log('warn', 'mqtt_version_refused', { address: addressOf(client), hint });
      }
      done(null, true);
    },
    authenticate: (client, username, password, done) => {
      authenticate(hooks, client, username ?? '', password?.toString() ?? '').then(
        (error) => done(error, error === null),
        (error: unknown) => {
          log('error', 'login_failed', { clientId: client.id, error: String(error) });
          done(null, false);
        },
      );
    },
    authorizePublish: (client, packet, done) => {
      const login = client === null ? undefined : logins.get(client);
      if (login === undefined || !mayPublish(login.acl, packet)) {
        logRefusedPublish(client, login, packet.topic);
        // MQTT 3.1.1 has no way to refuse, and aedes ends the connection on an error: like EMQX's default, acknowledge
        // and drop.
        packet.topic = refusedTopic;
        packet.retain = false;
        packet.payload = Buffer.alloc(0);
      }
      done(null);
    },
    authorizeSubscribe: (client, subscription, done) => {
      const isAllowed = maySubscribe(logins.get(client)?.acl ?? [], subscription.topic);
      if (!isAllowed) log('warn', 'subscription_refused', { clientId: client.id, filter: subscription.topic });
      done(null, isAllowed ? subscription : null);
    },
    authorizeForward: (client, packet) => (mayReceive(logins.get(client)?.acl ?? [], packet.topic) ? packet : null),
  });
}

async function authenticate(
  hooks: WorkerHooks,
  client: Client,
  username: string,
  password: string,
): Promise<AuthenticateError | null> {
  const peerhost = addressOf(client);
  const request = { clientid: client.id, username, password, peerhost, proto_ver: client.version };
  const answer = await hooks.askLogin(request);
  if ('acl' in answer) {
    logins.set(client, { username, acl: answer.acl, hasLoggedRefusal: false });
    return null;
  }
  const { reason, returnCode } = answer;
  log(returnCode === 3 ? 'warn' : 'info', 'login_refused', { clientId: client.id, username, peerhost, reason });

  return Object.assign(new Error(reason), { returnCode });
}

/** Once a connection: a device that keeps trying must not fill the log. */
function logRefusedPublish(client: Client | null, login: Login | undefined, topic: string): void {
  if (login?.hasLoggedRefusal === true) return;
  if (login !== undefined) login.hasLoggedRefusal = true;
  log('warn', 'publish_refused', { clientId: client?.id, topic });
}

function addressOf({ conn, req }: Client): string {
  const socket = req?.socket ?? conn;
  return ('remoteAddress' in socket && socket.remoteAddress) || '';
}

function createTlsFront(aedes: Aedes): Server | undefined {
  const { MQTT_TLS_PORT: port, TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile } = env;
  if (port === undefined || certFile === undefined || keyFile === undefined) return undefined;
  const options = { cert: readFileSync(certFile), key: readFileSync(keyFile), noDelay: true };
  const server = createTlsServer({ ...options, handshakeTimeout: connectWithinMs }, aedes.handle);
  // A client that does not trust the certificate hangs up.
  server.on('tlsClientError', (_error, socket) => socket.destroy());
  return server;
}

function createWebSocketFront(aedes: Aedes): Server {
  const http = createHttpServer((_request, response) => {
    response.writeHead(426, { 'content-type': 'text/plain', connection: 'close' }).end('MQTT over WebSocket\n');
  });
  const sockets = new WebSocketServer({
    server: http,
    perMessageDeflate: false,
    handleProtocols: (offered) => ['mqtt', 'mqttv3.1'].find((name) => offered.has(name)) ?? false,
  });
  sockets.on('connection', (socket, request: IncomingMessage) => {
    const conn: Duplex = createWebSocketStream(socket);
    // By itself the stream would end and never close.
    socket.once('close', () => conn.destroy(new Error('the WebSocket was closed')));
    aedes.handle(conn, request);
  });
  // `listen` reports the same error of the HTTP server.
  sockets.on('error', () => undefined);
  return http;
}

async function listen(server: Server, port: number, host: string): Promise<number> {
  await once(server.listen(port, host), 'listening');
  return (server.address() as AddressInfo).port;
}
