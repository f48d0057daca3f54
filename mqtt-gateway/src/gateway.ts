// The gateway: its listeners for TCP and TLS, a place for each connection, its health, and the end of all of it. Keeps
// nothing that another gateway would need.
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { TLSSocket } from 'node:tls';
import { WebSocket } from 'ws';
import { serveHealth } from '../../node-service/health.ts';
import { describeError, type Log } from '../../node-service/log.ts';
import { createRegistry } from '../../node-service/metrics.ts';
import { deviceAddressHeader, mqttSubprotocol } from '../../src/protocol/gateway.ts';
import { createAdmission } from './admission.ts';
import { watchCertificate } from './certificate.ts';
import type { GatewayConfig } from './config.ts';
import { Connection } from './connection.ts';

type Listener = 'tcp' | 'tls';
/** How the last WebSocket began: this is all that a gateway knows of the Worker. */
type WorkerState = 'unknown' | 'connected' | 'secret_refused' | 'unavailable';

const lookEveryMs = 1_000;
const maxFrameBytes = 1024 * 1024;
/** For each kind of message about connections. */
const logEveryMs = 10_000;

/** @throws Error if it cannot listen, or if the certificate cannot be used */
export async function startGateway(config: GatewayConfig, log: Log): Promise<{ stop: () => Promise<void> }> {
  const { tcpPort, tls, health, host, limits } = config;
  const certificate = tls === null ? undefined : watchCertificate(tls, log);
  const admission = createAdmission(limits);
  const connections = new Set<Connection>();
  const servers: Server[] = [];
  const loggedAtMs = new Map<string, number>();
  let workerState: WorkerState = 'unknown';
  let isLeaving = false;
  const { registry, counter, histogram, observe } = createRegistry('gateway_');
  const metrics = {
    refused: counter('connections_refused_total', 'Connections closed at once, by limit', ['limit']),
    closed: counter('connections_closed_total', 'Connections that have ended, by what ended them', ['by']),
    bytesUp: counter('bytes_up_total', 'Bytes carried from devices to the Worker'),
    bytesDown: counter('bytes_down_total', 'Bytes carried from the Worker to devices'),
    connectSeconds: histogram('connect_seconds', 'From the opening of a connection to the first answer of the Worker'),
    workerRefusals: counter('worker_refusals_total', 'WebSockets that the Worker refused, by HTTP status', ['status']),
  };
  const { openCount, unauthenticatedCount } = admission;
  observe('connections', 'Open connections', openCount);
  observe('connections_unauthenticated', 'Open connections that the Worker has not answered yet', unauthenticatedCount);
  if (certificate !== undefined) {
    const expiresInSeconds = () => (certificate.current.expiresAtMs - Date.now()) / 1000;
    observe('certificate_expires_seconds', 'Seconds until the certificate in use expires', expiresInSeconds);
  }
  const lookTimer = setInterval(() => {
    for (const connection of connections) connection.look(Date.now());
  }, lookEveryMs);
  if (tcpPort !== null) await listen('tcp', tcpPort);
  if (tls !== null) await listen('tls', tls.port);
  const endHealth = await serveHealth(health, registry, log, readReadiness);
  return { stop };

  /** Takes no more connections. Ends the open ones evenly over the time to drain, so that others can take them. */
  async function stop(): Promise<void> {
    isLeaving = true;
    for (const server of servers) server.close();
    endHealth();
    certificate?.stop();
    const leaving = [...connections];
    const pauseMs = config.drainMs / Math.max(1, leaving.length);
    const startedAtMs = performance.now();
    for (const [index, connection] of leaving.entries()) {
      const waitMs = startedAtMs + index * pauseMs - performance.now();
      if (waitMs > 0) await sleep(waitMs);
      connection.drain();
    }
    while (connections.size > 0) await sleep(20);
    clearInterval(lookTimer);
  }

  async function listen(listener: Listener, port: number): Promise<void> {
    const server = createServer((socket) => take(listener, socket));
    servers.push(server);
    server.listen({ port, ...(host !== undefined && { host }), backlog: 1024 });
    await once(server, 'listening').catch((error: unknown) => {
      throw new Error(`port ${port} cannot be used: ${describeError(error)}`, { cause: error });
    });
    const bound = server.address() as AddressInfo;
    log.info('listening', { listener, address: bound.address, port: bound.port });
  }

  function take(listener: Listener, raw: Socket): void {
    // IPv4 in its own form, also if the listener serves IPv6 too.
    const address = raw.remoteAddress?.replace(/^::ffff:(?=\d+\.)/i, '');
    // The client is gone already.
    if (address === undefined || isLeaving) {
      raw.destroy();
      return;
    }
    const place = admission.enter(address, () => connection.cut('displaced'));
    if (typeof place === 'string') {
      metrics.refused.inc({ limit: place });
      logRarely('warn', 'connection refused: too many', { limit: place, address });
      raw.destroy();
      return;
    }
    const secureContext = listener === 'tls' ? certificate?.current.context : undefined;
    const socket = secureContext === undefined ? raw : new TLSSocket(raw, { isServer: true, secureContext });
    const connection: Connection = new Connection(socket, {
      place,
      limits,
      openWorker: (path) => openWorker(path, address),
      onUp: (count) => metrics.bytesUp.inc(count),
      onDown: (count) => metrics.bytesDown.inc(count),
      onAnswer: metrics.connectSeconds.startTimer(),
      onRefused: noteRefusal,
      onEnd: (by) => {
        connections.delete(connection);
        metrics.closed.inc({ by });
        log.debug('connection ended', { by, address });
      },
    });
    connections.add(connection);
  }

  function openWorker(path: string, address: string): WebSocket {
    const { url, secret } = config.worker;
    const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/mqtt/${path}`, mqttSubprotocol, {
      headers: { Authorization: `Bearer ${secret}`, [deviceAddressHeader]: address },
      handshakeTimeout: limits.handshakeMs,
      maxPayload: maxFrameBytes,
      perMessageDeflate: false,
    });
    socket.once('open', () => (workerState = 'connected'));
    return socket;
  }

  function noteRefusal(reason: number | Error): void {
    if (typeof reason !== 'number') {
      workerState = 'unavailable';
      logRarely('warn', 'the Worker cannot be reached', { cause: describeError(reason) });
      return;
    }
    metrics.workerRefusals.inc({ status: String(reason) });
    if (reason === 401) {
      workerState = 'secret_refused';
      const remedy = 'set GATEWAY_SECRET to one of its GATEWAY_SECRETS';
      logRarely('error', 'the Worker does not let this gateway in', { alarm: true, remedy });
      return;
    }
    // 404 and 429 are about the device; the Worker is there.
    if (reason !== 404 && reason !== 429) workerState = 'unavailable';
    logRarely('warn', 'the Worker refused a connection', { status: reason });
  }

  function readReadiness() {
    const isReady = !isLeaving && (workerState === 'unknown' || workerState === 'connected');
    return { isReady, details: { worker: workerState, leaving: isLeaving } };
  }

  /** A message that strangers can cause any number of times must not fill a disk. */
  function logRarely(level: 'warn' | 'error', message: string, fields: Parameters<Log['warn']>[1]): void {
    const nowMs = Date.now();
    if (nowMs - (loggedAtMs.get(message) ?? -Infinity) < logEveryMs) return;
    loggedAtMs.set(message, nowMs);
    log[level](message, fields);
  }
}
