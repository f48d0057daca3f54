// An application's end of the relay: hears what comes into effect, message by message. It comes back when the Worker
// was restarted, and says whether it was away: what came into effect meanwhile it has not seen.
import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocket, type RawData } from 'ws';

const connectAgainAfterMs = 100;
const backWithinMs = 60_000;

export type WatchEvents = {
  /** Given the number of each message that is pushed. */
  onNumber: (number: number) => void;
  onLost: () => void;
  /** Every subscription stands again. */
  onBack: () => void;
};

export class RelayWatch {
  readonly #url: string;
  readonly #token: string;
  readonly #topics: readonly string[];
  readonly #events: WatchEvents;
  #socket: WebSocket | null = null;
  #isClosed = false;
  #isLost = false;
  /** How often the connection was lost since the first one stood. */
  losses = 0;

  private constructor(url: string, token: string, topics: readonly string[], events: WatchEvents) {
    this.#url = url;
    this.#token = token;
    this.#topics = topics;
    this.#events = events;
  }

  /** Resolves when every subscription stands. */
  static async start(
    workerUrl: string,
    token: string,
    topics: readonly string[],
    events: WatchEvents,
  ): Promise<RelayWatch> {
    const watch = new RelayWatch(`${workerUrl.replace(/^http/, 'ws')}/mqtt`, token, topics, events);
    await watch.#open();
    return watch;
  }

  /** Resolves when it was lost so often and stands again. */
  async untilBack(losses: number): Promise<void> {
    const deadlineMs = performance.now() + backWithinMs;
    while (this.losses < losses || this.#isLost) {
      if (performance.now() > deadlineMs) throw new Error('the relay does not come back');
      await sleep(20);
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#socket?.terminate();
  }

  async #open(): Promise<void> {
    const socket = new WebSocket(this.#url, { perMessageDeflate: false });
    this.#socket = socket;
    let unanswered = this.#topics.length + 1;
    const isReady = new Promise<void>((resolve, reject) => {
      socket.on('close', () => reject(new Error('the relay closed the socket')));
      socket.on('error', reject);
      socket.on('message', (data: RawData) => {
        const text = (data as Buffer).toString();
        if (!text.startsWith('{"action"')) this.#read(text);
        else if (!text.includes('"code":200')) reject(new Error(`the relay refuses: ${text}`));
        else if (--unanswered === 0) resolve();
      });
    });
    socket.on('open', () => {
      socket.send(JSON.stringify({ action: 'auth', token: this.#token }));
      for (const topic of this.#topics) socket.send(JSON.stringify({ action: 'subscribe', topic }));
    });
    await isReady;
    socket.once('close', () => void this.#comeBack());
  }

  async #comeBack(): Promise<void> {
    if (this.#isOver()) return;
    this.losses += 1;
    this.#isLost = true;
    this.#events.onLost();
    while (!this.#isOver()) {
      try {
        await this.#open();
        this.#isLost = false;
        this.#events.onBack();
        return;
      } catch {
        this.#socket?.terminate();
        await sleep(connectAgainAfterMs);
      }
    }
  }

  #isOver(): boolean {
    return this.#isClosed;
  }

  #read(text: string): void {
    const number = /"n":(\d+)/.exec(text)?.[1];
    if (number !== undefined) this.#events.onNumber(Number(number));
  }
}
