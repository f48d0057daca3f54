// The gateway: its listeners for TCP and TLS, a place for each connection, its health, and the end of all of it. Keeps
// nothing that another gateway would need.
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { TLSSocket } from 'node:tls';
import { WebSocket } from 'ws';
import { serveHealth } from '../../node-service/health.ts';
import { describeError, type Log } from '../../node-service/log.ts';
import { deviceAddressHeader, mqttSubprotocol } from '../../src/protocol/gateway.ts';
import { Admission } from './admission.ts';
import { CurrentCertificate } from './certificate.ts';
import type { GatewayConfig } from './config.ts';
import { Connection } from './connection.ts';
import { createMetrics } from './metrics.ts';

type Listener = 'tcp' | 'tls';
/** How the last WebSocket began: this is all that a gateway knows of the Worker. */
type WorkerState = 'unknown' | 'connected' | 'secret_refused' | 'unavailable';

const lookEveryMs = 1_000;
const maxFrameBytes = 1024 * 1024;
/** For each kind of message about connections. */
const logEveryMs = 10_000;

export class Gateway {
  readonly #config: GatewayConfig;
  readonly #log: Log;
  readonly #certificate: CurrentCertificate | undefined;
  readonly #admission: Admission;
  readonly #metrics = createMetrics();
  readonly #connections = new Set<Connection>();
  readonly #servers: Server[] = [];
  readonly #loggedAtMs = new Map<string, number>();
  readonly #lookTimer: NodeJS.Timeout;
  #worker: WorkerState = 'unknown';
  #isLeaving = false;
  #endHealth = (): void => undefined;

  private constructor(config: GatewayConfig, log: Log) {
    this.#config = config;
    this.#log = log;
    this.#certificate = config.tls === null ? undefined : new CurrentCertificate(config.tls, log);
    this.#admission = new Admission(config.limits);
    this.#metrics.observe('connections', 'Open connections', () => this.#admission.openCount);
    this.#metrics.observe(
      'connections_unauthenticated',
      'Open connections that the Worker has not answered yet',
      () => this.#admission.unauthenticatedCount,
    );
    const certificate = this.#certificate;
    if (certificate !== undefined) {
      this.#metrics.observe(
        'certificate_expires_seconds',
        'Seconds until the certificate in use expires',
        () => (certificate.current.expiresAtMs - Date.now()) / 1000,
      );
    }
    this.#lookTimer = setInterval(() => {
      for (const connection of this.#connections) connection.look(Date.now());
    }, lookEveryMs);
  }

  /** @throws Error if it cannot listen, or if the certificate cannot be used */
  static async start(config: GatewayConfig, log: Log): Promise<Gateway> {
    const gateway = new Gateway(config, log);
    const { tcpPort, tls, health, host } = config;
    if (tcpPort !== null) await gateway.#listen('tcp', host, tcpPort);
    if (tls !== null) await gateway.#listen('tls', host, tls.port);
    gateway.#endHealth = await serveHealth(health, gateway.#metrics.registry, log, () => gateway.#readiness());
    return gateway;
  }

  /** Takes no more connections. Ends the open ones evenly over the time to drain, so that others can take them. */
  async stop(): Promise<void> {
    this.#isLeaving = true;
    for (const server of this.#servers) server.close();
    this.#endHealth();
    this.#certificate?.stop();
    const leaving = [...this.#connections];
    const pauseMs = this.#config.drainMs / Math.max(1, leaving.length);
    const startedAtMs = performance.now();
    for (const [index, connection] of leaving.entries()) {
      const waitMs = startedAtMs + index * pauseMs - performance.now();
      if (waitMs > 0) await sleep(waitMs);
      connection.drain();
    }
    while (this.#connections.size > 0) await sleep(20);
    clearInterval(this.#lookTimer);
  }

  async #listen(listener: Listener, host: string | undefined, port: number): Promise<void> {
    const server = createServer((socket) => this.#take(listener, socket));
    this.#servers.push(server);
    server.listen({ port, ...(host !== undefined && { host }), backlog: 1024 });
    await once(server, 'listening').catch((error: unknown) => {
      throw new Error(`port ${port} cannot be used: ${describeError(error)}`, { cause: error });
    });
    const bound = server.address() as AddressInfo;
    this.#log.info('listening', { listener, address: bound.address, port: bound.port });
  }

  #take(listener: Listener, raw: Socket): void {
    // IPv4 in its own form, also if the listener serves IPv6 too.
    const address = raw.remoteAddress?.replace(/^::ffff:(?=\d+\.)/i, '');
    // The client is gone already.
    if (address === undefined || this.#isLeaving) {
      raw.destroy();
      return;
    }
    const place = this.#admission.enter(address, () => connection.cut('displaced'));
    if (typeof place === 'string') {
      this.#metrics.refused.inc({ limit: place });
      this.#logRarely('warn', 'connection refused: too many', { limit: place, address });
      raw.destroy();
      return;
    }
    this.#metrics.accepted.inc({ listener });
    const secureContext = listener === 'tls' ? this.#certificate?.current.context : undefined;
    const socket = secureContext === undefined ? raw : new TLSSocket(raw, { isServer: true, secureContext });
    const connection: Connection = new Connection(socket, {
      place,
      limits: this.#config.limits,
      openWorker: (deviceId) => this.#openWorker(deviceId, address),
      onUp: (count) => this.#metrics.bytesUp.inc(count),
      onDown: (count) => this.#metrics.bytesDown.inc(count),
      onAnswer: this.#metrics.connectSeconds.startTimer(),
      onRefused: (reason) => this.#noteRefusal(reason),
      onEnd: (by) => {
        this.#connections.delete(connection);
        this.#metrics.closed.inc({ by });
        this.#log.debug('connection ended', { by, address });
      },
    });
    this.#connections.add(connection);
  }

  #openWorker(deviceId: string, address: string): WebSocket {
    const { url, secret } = this.#config.worker;
    const worker = new WebSocket(`${url.replace(/^http/, 'ws')}/mqtt/${deviceId}`, mqttSubprotocol, {
      headers: { Authorization: `Bearer ${secret}`, [deviceAddressHeader]: address },
      handshakeTimeout: this.#config.limits.handshakeMs,
      maxPayload: maxFrameBytes,
      perMessageDeflate: false,
    });
    worker.once('open', () => (this.#worker = 'connected'));
    return worker;
  }

  #noteRefusal(reason: number | Error): void {
    if (typeof reason !== 'number') {
      this.#worker = 'unavailable';
      this.#logRarely('warn', 'the Worker cannot be reached', { cause: describeError(reason) });
      return;
    }
    this.#metrics.workerRefusals.inc({ status: String(reason) });
    if (reason === 401) {
      this.#worker = 'secret_refused';
      const remedy = 'set GATEWAY_SECRET to one of its GATEWAY_SECRETS';
      this.#logRarely('error', 'the Worker does not let this gateway in', { alarm: true, remedy });
      return;
    }
    // 404 and 429 are about the device; the Worker is there.
    if (reason !== 404 && reason !== 429) this.#worker = 'unavailable';
    this.#logRarely('warn', 'the Worker refused a connection', { status: reason });
  }

  #readiness() {
    const details = {
      worker: this.#worker,
      connections: this.#admission.openCount,
      unauthenticated: this.#admission.unauthenticatedCount,
      leaving: this.#isLeaving,
    };
    return { isReady: !this.#isLeaving && (this.#worker === 'unknown' || this.#worker === 'connected'), details };
  }

  /** A message that strangers can cause any number of times must not fill a disk. */
  #logRarely(level: 'warn' | 'error', message: string, fields: Parameters<Log['warn']>[1]): void {
    const nowMs = Date.now();
    if (nowMs - (this.#loggedAtMs.get(message) ?? -Infinity) < logEveryMs) return;
    this.#loggedAtMs.set(message, nowMs);
    this.#log[level](message, fields);
  }
}
