// A thread of fan-out subscribers: many WebSockets that hold every frame against the one that has to come next. Sockets of
// its own, because a WebSocket library would take longer than the services that are compared.
import { connect, type Socket } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';
import { runDetached } from '../../node-service/detached.ts';

type Hello = { text: string } | { bytes: Uint8Array };
export type Subscribers = {
  port: number;
  path: string;
  subProtocol: string | null;
  /** Each is sent when the hello before it is answered. */
  hellos: Hello[];
};
export type ThreadData = Subscribers & { count: number };
/** To the thread: the payloads of the frames that each socket has to get. Back: when the last one had come, and problems. */
export type Round = { expected: Uint8Array[] };
export type RoundOutcome = { completeAtMs: number | null; problems: string[] };

const surplusWithinMs = 300;
const lostAfterQuietMs = 60_000;
const openAtOnce = 50;
const pingPrefix = Buffer.from('{"action":"ping"');

const { port, path, subProtocol, count, hellos } = workerData as ThreadData;
let expected: Uint8Array[] = [];
const progress: { complete: number; lastAtMs: number; completeAtMs: number | null } = {
  complete: 0,
  lastAtMs: 0,
  completeAtMs: null,
};

const nowMs = (): number => performance.timeOrigin + performance.now();

class Subscriber {
  readonly #socket: Socket;
  #rest: Buffer = Buffer.alloc(0);
  #isOpen = false;
  #answered = 0;
  #onAnswer: () => void = () => undefined;
  received = 0;
  wrong = 0;

  constructor() {
    this.#socket = connect({ port, host: '127.0.0.1', noDelay: true });
    this.#socket.on('data', (chunk) => this.#take(chunk));
    this.#socket.on('error', () => (this.wrong += 1));
    this.#socket.on('close', () => (this.wrong += 1));
  }

  async open(): Promise<void> {
    const protocol = subProtocol === null ? '' : `Sec-WebSocket-Protocol: ${subProtocol}\r\n`;
    this.#socket.write(
      `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
        `Sec-WebSocket-Key: MTIzNDU2Nzg5MDEyMzQ1Ng==\r\nSec-WebSocket-Version: 13\r\n${protocol}\r\n`,
    );
    await this.#untilAnswered(0);
    for (const [index, hello] of hellos.entries()) {
      const payload = 'text' in hello ? Buffer.from(hello.text) : Buffer.from(hello.bytes);
      this.#send('text' in hello ? 0x81 : 0x82, payload);
      await this.#untilAnswered(index + 1);
    }
  }

  #untilAnswered(answers: number): Promise<void> {
    return new Promise((resolve) => {
      this.#onAnswer = () => {
        if (this.#isOpen && this.#answered >= answers) resolve();
      };
      this.#onAnswer();
    });
  }

  /** Masked with zeros, which leaves the payload as it is. */
  #send(opcode: number, payload: Buffer): void {
    const head =
      payload.length < 126
        ? [opcode, 0x80 | payload.length]
        : [opcode, 0x80 | 126, payload.length >> 8, payload.length & 0xff];
    this.#socket.write(Buffer.concat([Buffer.from([...head, 0, 0, 0, 0]), payload]));
  }

  #take(chunk: Buffer): void {
    let data = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    if (!this.#isOpen) {
      const end = data.indexOf('\r\n\r\n');
      if (end < 0) {
        this.#rest = data;
        return;
      }
      if (!data.toString('latin1', 0, 12).endsWith('101')) this.wrong += 1;
      this.#isOpen = true;
      data = data.subarray(end + 4);
      this.#onAnswer();
    }
    let at = 0;
    for (;;) {
      if (data.length - at < 2) break;
      const short = (data[at + 1] ?? 0) & 0x7f;
      const headLength = short < 126 ? 2 : short === 126 ? 4 : 10;
      if (data.length - at < headLength) break;
      const length = short < 126 ? short : short === 126 ? data.readUInt16BE(at + 2) : data.readUInt32BE(at + 6);
      if (data.length - at < headLength + length) break;
      this.#note(data, at + headLength, at + headLength + length);
      at += headLength + length;
    }
    this.#rest = data.subarray(at);
  }

  #note(data: Buffer, from: number, to: number): void {
    if (this.#answered < hellos.length) {
      this.#answered += 1;
      this.#onAnswer();
      return;
    }
    const wanted = expected[this.received];
    if (wanted !== undefined && data.compare(wanted, 0, wanted.length, from, to) === 0) {
      this.received += 1;
      if (this.received === expected.length) noteComplete();
      return;
    }
    const payload = data.subarray(from, to);
    if (payload.subarray(0, pingPrefix.length).equals(pingPrefix)) {
      this.#send(0x81, Buffer.from(payload.toString().replace('ping', 'pong')));
    } else {
      this.wrong += 1;
    }
  }
}

function noteComplete(): void {
  progress.complete += 1;
  progress.lastAtMs = nowMs();
  if (progress.complete === count) progress.completeAtMs = progress.lastAtMs;
}

const subscribers: Subscriber[] = [];

async function run(round: Round): Promise<void> {
  ({ expected } = round);
  Object.assign(progress, { complete: 0, completeAtMs: null, lastAtMs: nowMs() });
  for (const subscriber of subscribers) subscriber.received = subscriber.wrong = 0;
  parentPort?.postMessage('ready');
  while (nowMs() - progress.lastAtMs < (progress.completeAtMs === null ? lostAfterQuietMs : surplusWithinMs)) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const lost = subscribers.reduce((sum, { received }) => sum + expected.length - received, 0);
  const wrong = subscribers.reduce((sum, subscriber) => sum + subscriber.wrong, 0);
  const problems = [
    ...(lost > 0 ? [`${lost} deliveries lost`] : []),
    ...(wrong > 0 ? [`${wrong} frames doubled, altered or overtaken, or sockets closed`] : []),
  ];
  parentPort?.postMessage({ completeAtMs: progress.completeAtMs, problems } satisfies RoundOutcome);
}

for (let at = 0; at < count; at += openAtOnce) {
  const some = Array.from({ length: Math.min(openAtOnce, count - at) }, () => new Subscriber());
  subscribers.push(...some);
  await Promise.all(some.map((subscriber) => subscriber.open()));
}
parentPort?.on('message', (round: Round) => runDetached(run(round)));
parentPort?.postMessage('open');
