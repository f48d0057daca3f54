// A WebSocket client of the Worker under test, inside workerd. Frames are read in the order they came; waiting always
// has an end. Asserts nothing.
import { exports } from 'cloudflare:workers';

const patienceMs = 60_000;

export type SocketEnd = { code: number; reason: string };

export class TestSocket {
  readonly #socket: WebSocket;
  readonly #frames: unknown[] = [];
  readonly #waiting: (() => void)[] = [];
  /** How the other side closed. */
  readonly closed: Promise<SocketEnd>;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.accept();
    socket.addEventListener('message', ({ data }) => {
      this.#frames.push(typeof data === 'string' ? readFrame(data) : data);
      this.#waiting.shift()?.();
    });
    this.closed = new Promise((resolve) => {
      socket.addEventListener('close', ({ code, reason }) => resolve({ code, reason }));
    });
  }

  /** An object goes as JSON, text and bytes as they are. */
  send(frame: unknown): void {
    this.#socket.send(typeof frame === 'string' || frame instanceof ArrayBuffer ? frame : JSON.stringify(frame));
  }

  /** The next frame, parsed where it is JSON. */
  async next(): Promise<unknown> {
    if (this.#frames.length === 0) {
      await within(new Promise<void>((resolve) => this.#waiting.push(resolve)), 'no frame came');
    }
    return this.#frames.shift();
  }

  async ask(frame: unknown): Promise<unknown> {
    this.send(frame);
    return this.next();
  }

  /** Instead of `next`: hands each frame to `answer`. */
  answerAll(answer: (frame: unknown) => void): void {
    this.#socket.addEventListener('message', ({ data }) => answer(readFrame(data as string)));
  }

  end(): Promise<SocketEnd> {
    return within(this.closed, 'not closed');
  }

  close(code = 1000): void {
    this.#socket.close(code, '');
  }
}

export async function openSocket(path: string, headers: Record<string, string> = {}): Promise<TestSocket> {
  return new TestSocket(await upgrade(path, headers));
}

/** @throws Error with status and body where the Worker does not upgrade */
export async function upgrade(path: string, headers: Record<string, string> = {}): Promise<WebSocket> {
  const response = await exports.default.fetch(
    new Request(`https://latchwork.test${path}`, { headers: { Upgrade: 'websocket', ...headers } }),
  );
  if (response.webSocket === null) throw new Error(`not upgraded: ${response.status} ${await response.text()}`);
  return response.webSocket;
}

export async function within<T>(promise: Promise<T>, complaint: string): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`${complaint} within ${patienceMs} ms`)), patienceMs);
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function readFrame(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return text;
    throw error;
  }
}
