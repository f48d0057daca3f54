// The bridge's WebSocket to the Worker: keeps it open, identifies this bridge, passes on what arrives.
// It must not decide what a role or a command means.
import { randomUUID } from 'node:crypto';
import { WebSocket, type RawData } from 'ws';
import * as protocol from '../../../src/protocol/bridge.ts';
import { createBackOff } from '../../../node-service/back-off.ts';
import type { BridgeConfig } from '../config.ts';
import { readJson } from '../intake/json.ts';
import { describeError, type Log } from '../../../node-service/log.ts';

export type Role = 'active' | 'standby';
export type BrokerState = { connected: boolean; session?: protocol.BrokerSession };

type HelloFrame = Extract<protocol.BridgeFrame, { type: 'hello' }>;

type LinkOptions = {
  config: BridgeConfig;
  spoolId: string;
  log: Log;
  readBroker: () => BrokerState;
  /** `resumes`: no other bridge was active since this process was. */
  onRole: (role: Role, resumes: boolean) => void;
  onPublish: (frame: protocol.PublishFrame) => void;
  /** Connected means that the Worker has answered `hello`. `lastFrameAtMs`: when it sent anything before a loss. */
  onConnectedChange: (isConnected: boolean, lastFrameAtMs: number) => void;
  onRetry: () => void;
  /** The first hello of this process was refused, by what an operator has to change: it is not tried again. */
  onRefused: (remedy: string) => void;
};

const pingEveryMs = 5000;
const watchEveryMs = 1000;
const maxInactivityMs = 10_000;
/** The Worker promotes another bridge 9 s after our last ping at the earliest; clocks may drift a little until then. */
const roleIsSureForMs = 8500;
const handshakeTimeoutMs = 10_000;
const unauthorizedRetryMs = 30_000;
const stableAfterMs = 10_000;
/** How long to leave the field to another process that is taken for this bridge. */
const standBackMs = 60_000;
const remedies = {
  [protocol.linkCloseReasons.replaced]: 'another process runs with this BRIDGE_ID: stop one of them',
  [protocol.linkCloseReasons.id_in_use]:
    'a bridge with another spool has this BRIDGE_ID: give each bridge an id of its own',
  [protocol.linkCloseReasons.other_session]:
    'give all bridges the same MQTT_CLIENT_ID: without it each makes up its own',
};

/** Estimates the Worker's clock: a machine whose own clock is wrong must not publish commands that have expired there. */
export class WorkerClock {
  /** The Worker's time minus ours, from the fastest frame so far: too small by the time that frame took. */
  #offsetMs: number | null = null;
  /** The fastest ping of this connection so far. */
  #roundTripMs: number | null = null;

  noteFrame(workerNowMs: number, nowMs: number): void {
    this.#offsetMs = Math.max(this.#offsetMs ?? -Infinity, workerNowMs - nowMs);
  }

  noteRoundTrip(durationMs: number): void {
    this.#roundTripMs = Math.min(this.#roundTripMs ?? Infinity, durationMs);
  }

  nowMs(ourNowMs: number): number {
    return ourNowMs + (this.#offsetMs ?? 0) + (this.#roundTripMs ?? 0) / 2;
  }
}

export class WorkerLink {
  isConnected = false;
  readonly #options: LinkOptions;
  readonly #instanceId = randomUUID();
  #clock = new WorkerClock();
  readonly #backOff = createBackOff({ baseMs: 100, capMs: 5000 });
  #socket: WebSocket | null = null;
  #wasEverWelcome = false;
  #welcomeAtMs = 0;
  #lastFrameAtMs = 0;
  /** When the unanswered pings were sent, and the last answered one; by the monotonic clock. */
  #pingsUnderWay: number[] = [];
  #answeredPingAtMs = -Infinity;
  #watchTimer: NodeJS.Timeout | undefined;
  #retryTimer: NodeJS.Timeout | undefined;
  #isWanted = false;

  constructor(options: LinkOptions) {
    this.#options = options;
  }

  /** No other bridge can have been made active by now. */
  get isRoleSure(): boolean {
    return this.isConnected && performance.now() - this.#answeredPingAtMs < roleIsSureForMs;
  }

  nowMs(): number {
    return this.#clock.nowMs(Date.now());
  }

  start(): void {
    this.#isWanted = true;
    this.#connect();
  }

  /** Reconnects, to learn again which role this bridge has. */
  restart(): void {
    if (this.isConnected) this.#socket?.terminate();
  }

  send(frame: protocol.BridgeFrame): boolean {
    if (!this.isConnected || this.#socket?.readyState !== WebSocket.OPEN) return false;
    this.#socket.send(JSON.stringify(frame));
    return true;
  }

  async stop(): Promise<void> {
    this.#isWanted = false;
    clearTimeout(this.#retryTimer);
    const socket = this.#socket;
    if (socket === null) return;
    if (socket.readyState === WebSocket.OPEN) socket.close(1001, 'leaving');
    else socket.terminate();
    const timer = setTimeout(() => socket.terminate(), 1000);
    await new Promise<void>((resolve) => socket.once('close', () => resolve()));
    clearTimeout(timer);
  }

  #connect(): void {
    const { workerUrl, bridgeSecret } = this.#options.config;
    const socket = new WebSocket(`${workerUrl.replace(/^http/, 'ws')}${protocol.linkPath}`, {
      headers: { authorization: `Bearer ${bridgeSecret}` },
      perMessageDeflate: false,
      handshakeTimeout: handshakeTimeoutMs,
      maxPayload: 1024 * 1024,
    });
    this.#socket = socket;
    let cause = 'closed by the Worker';
    let refusedStatus: number | null = null;
    socket.on('upgrade', (response) => response.socket.setNoDelay(true));
    socket.on('unexpected-response', (request, response) => {
      refusedStatus = response.statusCode ?? 0;
      cause = `status ${refusedStatus}`;
      request.destroy();
      socket.terminate();
    });
    socket.on('error', (error) => {
      if (refusedStatus === null) cause = describeError(error);
    });
    socket.on('open', () => this.#sendHello(socket));
    socket.on('message', (data, isBinary) => this.#read(data, isBinary));
    socket.on('close', (code, reason) => {
      const detail = code === 1006 ? cause : `${cause}: ${code} ${reason.toString()}`.trimEnd();
      this.#noteClose(detail, refusedStatus, reason.toString());
    });
  }

  #sendHello(socket: WebSocket): void {
    // Measured anew: our clock may have been set, or drifted, since the last connection.
    this.#clock = new WorkerClock();
    this.#lastFrameAtMs = Date.now();
    this.#pingsUnderWay = [];
    this.#answeredPingAtMs = -Infinity;
    const { config, spoolId, readBroker } = this.#options;
    const { bridgeId, sessionDigest } = config;
    const identity = { bridgeId, instanceId: this.#instanceId, spoolId, sessionDigest };
    const { connected: brokerConnected, session } = readBroker();
    socket.send(JSON.stringify({ type: 'hello', ...identity, brokerConnected, session } satisfies HelloFrame));
    this.#ping(socket);
    this.#watchTimer = setInterval(() => this.#watch(socket), watchEveryMs);
  }

  #watch(socket: WebSocket): void {
    if (Date.now() - this.#lastFrameAtMs > maxInactivityMs) {
      this.#options.log.warn('the Worker sends nothing on the link', { maxInactivityMs });
      socket.terminate();
    } else if (performance.now() - (this.#pingsUnderWay.at(-1) ?? this.#answeredPingAtMs) >= pingEveryMs) {
      this.#ping(socket);
    }
  }

  #ping(socket: WebSocket): void {
    this.#pingsUnderWay.push(performance.now());
    socket.send(protocol.linkPing);
  }

  #read(data: RawData, isBinary: boolean): void {
    this.#lastFrameAtMs = Date.now();
    // A Buffer, by the default of `binaryType`.
    const text = isBinary ? '' : (data as Buffer).toString();
    if (text === protocol.linkPong) {
      const sentAtMs = this.#pingsUnderWay.shift();
      if (sentAtMs === undefined) return;
      this.#answeredPingAtMs = sentAtMs;
      this.#clock.noteRoundTrip(performance.now() - sentAtMs);
      return;
    }
    const frame = readJson(protocol.workerFrameSchema, text);
    if (frame === undefined) {
      this.#options.log.warn('a frame on the link cannot be understood', { bytes: text.length });
      return;
    }
    if (frame.type === 'publish') {
      this.#options.onPublish(frame);
      return;
    }
    this.#clock.noteFrame(frame.nowMs, Date.now());
    if (!this.isConnected) {
      this.isConnected = true;
      this.#wasEverWelcome = true;
      this.#welcomeAtMs = Date.now();
      this.#options.log.info('connected to the Worker');
      this.#options.onConnectedChange(true, this.#lastFrameAtMs);
    }
    this.#options.onRole(frame.role, frame.resumes);
  }

  #noteClose(cause: string, refusedStatus: number | null, reason: string): void {
    clearInterval(this.#watchTimer);
    this.#socket = null;
    const wasWelcome = this.isConnected;
    this.isConnected = false;
    if (wasWelcome) this.#options.onConnectedChange(false, this.#lastFrameAtMs);
    if (!this.#isWanted) return;
    this.#options.onRetry();
    if (wasWelcome && Date.now() - this.#welcomeAtMs > stableAfterMs) this.#backOff.failures = 0;
    // The other process is connected to the broker under the same client id by now, or will be.
    if (reason === protocol.linkCloseReasons.replaced) this.#options.onRole('standby', false);
    let remedy = Object.hasOwn(remedies, reason) ? remedies[reason as keyof typeof remedies] : undefined;
    if (remedy !== undefined && !this.#wasEverWelcome) {
      this.#options.onRefused(remedy);
      return;
    }
    let delayMs = remedy === undefined ? this.#backOff.nextDelayMs() : standBackMs;
    if (refusedStatus === 401 || refusedStatus === 403) {
      delayMs = unauthorizedRetryMs;
      remedy = 'give this bridge and the Worker the same BRIDGE_SECRET';
    }
    this.#options.log[remedy === undefined ? 'warn' : 'error']('no link to the Worker', {
      cause,
      retryInMs: Math.round(delayMs),
      ...(remedy === undefined ? {} : { alarm: true, remedy }),
    });
    this.#retryTimer = setTimeout(() => this.#connect(), delayMs);
  }
}
