// One connection to the relay: opens it, notices when it has died in silence, answers the service's reading checks. Says
// when it is over, once; opens no other one.

/** The part of a WebSocket that is used: browsers, Node 22, React Native and the package `ws` have it. */
type SocketLike = {
  send(text: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: string, listener: (event: never) => void): void;
};
export type WebSocketConstructor = new (url: string) => object;

export type Frame = Record<string, unknown>;
export type Loss = { code: number; reason: string };

type Events = {
  onOpen: () => void;
  onHeard: () => void;
  onFrame: (frame: Frame) => void;
  onLost: (loss: Loss) => void;
};

/** Also how long opening may take. */
const answerWithinMs = 10_000;
const pingEveryMs = 30_000;

export class RelaySocket {
  readonly #socket: SocketLike;
  readonly #events: Events;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isOpen = false;
  #isOver = false;

  constructor(url: string, Socket: WebSocketConstructor, events: Events) {
    this.#events = events;
    this.#socket = new Socket(url) as SocketLike;
    this.#socket.addEventListener('open', () => {
      this.#scheduleTimer(() => this.#ping(), pingEveryMs);
      if (this.#isOver) return;
      this.#isOpen = true;
      events.onOpen();
    });
    this.#socket.addEventListener('message', ({ data }: { data: unknown }) => this.#take(data));
    this.#socket.addEventListener('close', ({ code, reason }: Loss) => this.#lose({ code, reason }));
    // 'close' follows, with its code.
    this.#socket.addEventListener('error', () => undefined);
    this.#scheduleTimer(() => this.#giveUp('not open in time'), answerWithinMs);
  }

  /** Sends nothing before it is open, nor afterwards: its caller begins with the auth. */
  send(frame: Frame): void {
    if (this.#isOpen && !this.#isOver) this.#socket.send(JSON.stringify(frame));
  }

  /** Ends it without a word to `onLost`. */
  end(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#socket.close(1000);
  }

  #take(data: unknown): void {
    if (this.#isOver || typeof data !== 'string') return;
    // Whatever comes shows that the connection lives.
    this.#scheduleTimer(() => this.#ping(), pingEveryMs);
    this.#events.onHeard();
    const frame = JSON.parse(data) as Frame;
    if (frame['action'] === 'ping') this.send({ ...frame, action: 'pong' });
    else if (frame['action'] !== 'pong') this.#events.onFrame(frame);
  }

  #ping(): void {
    this.#scheduleTimer(() => this.#giveUp('no sign of life'), answerWithinMs);
    // In exactly this spelling the platform answers it without waking the service.
    this.send({ action: 'ping' });
  }

  #giveUp(reason: string): void {
    // The network may be gone: nobody would answer a close.
    this.#socket.close();
    this.#lose({ code: 1006, reason });
  }

  #lose(loss: Loss): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#events.onLost(loss);
  }

  #scheduleTimer(run: () => void, inMs: number): void {
    clearTimeout(this.#timer);
    if (!this.#isOver) this.#timer = setTimeout(run, inMs);
  }
}
