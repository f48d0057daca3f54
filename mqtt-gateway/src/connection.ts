// One connection of a device or a home, carried byte for byte to a WebSocket of its own and back. Opens the WebSocket once CONNECT has said
// whose it is, reads neither side faster than the other one takes it, and ends one side when the other ends. Must not
// look at what it carries after CONNECT.
import type { Socket } from 'node:net';
import { WebSocket } from 'ws';
import { connackCodeOf, type ConnectRefusal } from '../../src/domain/direct/answer-codes.ts';
import { readConnect } from '../../src/domain/direct/connect.ts';
import { isKeyId, parseMessagingName } from '../../src/domain/topics.ts';
import type { ProtocolLevel } from '../../src/protocol/mqtt-codec/client-packets.ts';
import { PacketReader } from '../../src/protocol/mqtt-codec/packet-reader.ts';
import { encodeConnack } from '../../src/protocol/mqtt-codec/server-packets.ts';
import type { Place } from './admission.ts';

export type EndedBy =
  | 'device'
  /** No CONNECT, or a user name that is no device's. */
  | 'malformed'
  | 'refused'
  | 'worker'
  | 'worker_unavailable'
  | 'worker_silent'
  | 'handshake_timeout'
  | 'displaced'
  | 'idle'
  | 'unread'
  | 'drained';

export type ConnectionOptions = {
  place: Place;
  /** @param path behind `/mqtt/` */
  openWorker: (path: string) => WebSocket;
  limits: { handshakeMs: number; idleMs: number; unreadMs: number };
  onUp: (bytes: number) => void;
  onDown: (bytes: number) => void;
  /** The Worker's first answer is here. */
  onAnswer: () => void;
  /** Why the Worker did not open the WebSocket: its HTTP status, or what broke. */
  onRefused: (reason: number | Error) => void;
  /** Both sides are closed. */
  onEnd: (by: EndedBy) => void;
};

/** More bytes than this waiting for the Worker pause the device; at `resumeBytes` it is read again. */
const maxWaitingBytes = 64 * 1024;
const resumeBytes = 16 * 1024;
/** For the delivery of what was sent before the end; afterwards the connection is cut. */
const closeWithinMs = 5_000;
const pingEveryMs = 30_000;

export class Connection {
  readonly #device: Socket;
  readonly #options: ConnectionOptions;
  readonly #handshakeTimer: NodeJS.Timeout;
  readonly #opening = new PacketReader();
  /** Read before the WebSocket was open: up to the read that ends CONNECT, since the device is paused after it. */
  readonly #early: Buffer[] = [];
  /** The device is answered in this version of MQTT. */
  #level: ProtocolLevel = 4;
  #worker: WebSocket | undefined;
  #endedBy: EndedBy | undefined;
  #hasAnswer = false;
  #isDeviceClosed = false;
  #isWorkerClosed = true;
  #cutTimer: NodeJS.Timeout | undefined;
  #movedAtMs = Date.now();
  /** Since when the device has taken none of the bytes that wait for it. */
  #unreadSinceMs: number | undefined;
  #pingedAtMs = Date.now();
  #isPongMissing = false;

  constructor(device: Socket, options: ConnectionOptions) {
    this.#device = device;
    this.#options = options;
    this.#handshakeTimer = setTimeout(() => this.cut('handshake_timeout'), options.limits.handshakeMs);
    device.setNoDelay(true);
    device.setKeepAlive(true, 60_000);
    device.on('data', (chunk: Buffer) => this.#takeUp(chunk));
    device.on('end', () => this.#closeWorker('device', 1000));
    device.on('drain', () => {
      this.#unreadSinceMs = undefined;
      this.#worker?.resume();
    });
    // 'close' follows, also on a reset and on a TLS handshake that fails.
    device.on('error', () => undefined);
    device.on('close', () => {
      this.#isDeviceClosed = true;
      this.#closeWorker('device', 1000);
      this.#noteEnd();
    });
  }

  /** Called every second: one timer serves all connections. */
  look(nowMs: number): void {
    const { idleMs, unreadMs } = this.#options.limits;
    if (nowMs - this.#movedAtMs > idleMs) this.cut('idle');
    else if (this.#unreadSinceMs !== undefined && nowMs - this.#unreadSinceMs > unreadMs) this.cut('unread');
    else this.#askWorker(nowMs);
  }

  /** Ends both sides in order: what was read is delivered first. */
  drain(): void {
    if (this.#worker === undefined) this.cut('drained');
    // Service restart: the device will be back soon.
    else this.#closeWorker('drained', 1012);
  }

  /** Ends both sides at once; what is under way may be lost. */
  cut(by: EndedBy): void {
    this.#endedBy ??= by;
    this.#worker?.terminate();
    this.#device.destroy();
  }

  #takeUp(chunk: Buffer): void {
    this.#movedAtMs = Date.now();
    this.#options.onUp(chunk.length);
    // Once it closes, what still comes has nobody to read it.
    if (this.#worker?.readyState === WebSocket.OPEN) this.#send(this.#worker, chunk);
    else if (this.#worker === undefined && this.#endedBy === undefined) this.#readOpening(chunk);
  }

  #readOpening(chunk: Buffer): void {
    this.#early.push(chunk);
    this.#opening.push(chunk);
    const first = readConnect(this.#opening);
    if (first === undefined) return;
    if ('drop' in first) {
      this.#turnAway('malformed');
      return;
    }
    this.#level = first.level;
    const path = 'refusal' in first ? undefined : pathOf(first.username ?? '');
    if (path === undefined) this.#turnAway('refused', 'refusal' in first ? first.refusal : 'bad_credentials');
    else {
      this.#device.pause();
      this.#open(path);
    }
  }

  /** Ends the connection before a session has begun, with CONNACK if there is a CONNECT to answer. */
  #turnAway(by: EndedBy, refusal?: ConnectRefusal): void {
    this.#endedBy ??= by;
    if (refusal !== undefined && this.#device.writable) {
      this.#device.write(encodeConnack(this.#level, connackCodeOf(this.#level, refusal)));
    }
    this.#worker?.terminate();
    this.#closeDevice();
  }

  #open(path: string): void {
    const worker = this.#options.openWorker(path);
    this.#worker = worker;
    this.#isWorkerClosed = false;
    worker.on('open', () => {
      for (const chunk of this.#early.splice(0)) this.#send(worker, chunk);
      if (worker.bufferedAmount <= maxWaitingBytes) this.#device.resume();
    });
    worker.on('unexpected-response', (request, response) => {
      this.#options.onRefused(response.statusCode ?? 0);
      request.destroy();
      // 404: no device has this id.
      if (response.statusCode === 404) this.#turnAway('refused', 'bad_credentials');
      else this.#turnAway('worker_unavailable', 'unavailable');
    });
    worker.on('message', (data) => this.#takeDown(data as Buffer));
    worker.on('pong', () => (this.#isPongMissing = false));
    worker.on('error', (error) => {
      // 'close' follows. A WebSocket that this side ends before it is open reports an error, too.
      if (this.#endedBy !== undefined) return;
      this.#options.onRefused(error);
      // An error after the device was answered is no answer to CONNECT.
      this.#turnAway('worker_unavailable', this.#hasAnswer ? undefined : 'unavailable');
    });
    worker.on('close', () => {
      this.#isWorkerClosed = true;
      this.#endedBy ??= 'worker';
      this.#closeDevice();
      this.#noteEnd();
    });
  }

  #send(worker: WebSocket, chunk: Buffer): void {
    worker.send(chunk, { binary: true }, () => {
      if (this.#device.isPaused() && worker.bufferedAmount <= resumeBytes) this.#device.resume();
    });
    if (worker.bufferedAmount > maxWaitingBytes) this.#device.pause();
  }

  #takeDown(data: Buffer): void {
    if (!this.#hasAnswer) this.#options.onAnswer();
    this.#hasAnswer = true;
    this.#movedAtMs = Date.now();
    this.#options.onDown(data.length);
    clearTimeout(this.#handshakeTimer);
    this.#options.place.authenticate();
    if (this.#device.writable && !this.#device.write(data)) {
      this.#unreadSinceMs ??= Date.now();
      this.#worker?.pause();
    }
  }

  /** The path to the Worker is kept open, and a broken one found. The runtime answers, no object wakes for it. */
  #askWorker(nowMs: number): void {
    // Its answer would not be read.
    if (this.#worker?.readyState !== WebSocket.OPEN || this.#worker.isPaused) return;
    if (nowMs - this.#pingedAtMs < pingEveryMs) return;
    if (this.#isPongMissing) {
      this.cut('worker_silent');
      return;
    }
    this.#pingedAtMs = nowMs;
    this.#isPongMissing = true;
    this.#worker.ping();
  }

  #closeWorker(by: EndedBy, code: number): void {
    this.#endedBy ??= by;
    const worker = this.#worker;
    if (worker === undefined || this.#isWorkerClosed) return;
    if (worker.readyState === WebSocket.CONNECTING) {
      // What a device sent before it went is delivered.
      worker.on('open', () => worker.close(code));
    } else {
      worker.resume();
      worker.close(code);
    }
    this.#cutTimer ??= setTimeout(() => this.cut(by), closeWithinMs);
  }

  #closeDevice(): void {
    if (this.#isDeviceClosed) return;
    this.#device.resume();
    this.#device.destroySoon();
    this.#cutTimer ??= setTimeout(() => this.#device.destroy(), closeWithinMs);
  }

  #noteEnd(): void {
    if (!this.#isDeviceClosed || !this.#isWorkerClosed) return;
    clearTimeout(this.#handshakeTimer);
    clearTimeout(this.#cutTimer);
    this.#options.place.leave();
    this.#options.onEnd(this.#endedBy ?? 'device');
  }
}

/** A device's own path, or that of all homes. */
function pathOf(username: string): string | undefined {
  return isKeyId(username) ? 'home' : parseMessagingName(username)?.deviceId;
}
