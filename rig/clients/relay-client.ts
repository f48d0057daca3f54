// The relay client of everything that runs in plain Node: tests, faults, benchmarks and the demo of `npm start`.
// `RelayClient` is one connection; `RelayFollower` opens another one when it is lost. Asserts nothing.
import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocket, type ClientOptions } from 'ws';
import { Changes } from '../changes.ts';
import { inBackground } from '../in-background.ts';

export type Frame = Record<string, unknown>;
export type RelayLogin = { token: string } | { username: string; password: string };

export type RelayOptions = {
  socket?: ClientOptions;
  /** Called with every frame, before anything else looks at it. */
  onFrame?: (frame: Frame, isBinary: boolean) => void;
  /** Called with the text of each push in place of parsing and keeping it. */
  onPushText?: (text: string) => void;
};

export class RelayClient {
  readonly pushes: Frame[] = [];
  readonly replies: Frame[] = [];
  closed: { code: number; reason: string } | undefined;
  readonly #socket: WebSocket;
  readonly #changes = new Changes();

  private constructor(workerUrl: string, { socket, onFrame, onPushText }: RelayOptions) {
    this.#socket = new WebSocket(`${workerUrl.replace(/^http/, 'ws')}/mqtt`, socket);
    this.#socket.on('upgrade', (response) => response.socket.setNoDelay(true));
    this.#socket.on('message', (data, isBinary) => {
      const text = (data as Buffer).toString();
      if (text.startsWith('{"action":"ping"')) {
        this.#socket.send(text.replace('ping', 'pong'));
        return;
      }
      if (onPushText !== undefined && !text.startsWith('{"action"')) {
        onPushText(text);
        return;
      }
      const frame = JSON.parse(text) as Frame;
      onFrame?.(frame, isBinary);
      ('payload' in frame ? this.pushes : this.replies).push(frame);
      this.#changes.note();
    });
    this.#socket.on('close', (code, reason) => {
      this.closed ??= { code, reason: reason.toString() };
      this.#changes.note();
    });
    // 'close' follows and has its own code; only the reason of a failed connection would be lost with it.
    this.#socket.on('error', (error) => (this.closed = { code: 1006, reason: error.message }));
  }

  /** @throws Error where there is no connection */
  static async open(workerUrl: string, options: RelayOptions = {}): Promise<RelayClient> {
    const client = new RelayClient(workerUrl, options);
    await client.#until('an open socket', () => client.#socket.readyState === WebSocket.OPEN);
    return client;
  }

  /** Signs in and subscribes without waiting in between (field note 50). @throws Error with the first refusal */
  async follow(login: RelayLogin, topics: readonly string[]): Promise<void> {
    this.send({ action: 'auth', ...login });
    for (const topic of topics) this.send({ action: 'subscribe', topic });
    for (let unanswered = topics.length + 1; unanswered > 0; unanswered -= 1) {
      const reply = await this.nextReply();
      if (reply['code'] !== 200) throw new Error(`the relay refuses: ${JSON.stringify(reply)}`);
    }
  }

  /** Objects go as JSON, anything else as it is. */
  send(frame: Frame | string | Buffer): void {
    this.#socket.send(typeof frame === 'string' || Buffer.isBuffer(frame) ? frame : JSON.stringify(frame));
  }

  async nextReply(): Promise<Frame> {
    await this.#until('a reply', () => this.replies.length > 0);
    return this.replies.shift() ?? {};
  }

  async ask(frame: Frame | string | Buffer): Promise<Frame> {
    this.send(frame);
    return this.nextReply();
  }

  async nextPush(): Promise<Frame> {
    await this.#until('a push', () => this.pushes.length > 0);
    return this.pushes.shift() ?? {};
  }

  /** The payload of the first push of the topic that fits, whether it has come already or not. */
  async untilPushed(topic: string, fits: (payload: unknown) => boolean = () => true): Promise<unknown> {
    const find = () => this.pushes.find((push) => push['topic'] === topic && fits(push['payload']));
    await this.#until(
      () => `a push of ${topic}; there were ${JSON.stringify(this.pushes)}`,
      () => find() !== undefined,
    );
    return find()?.['payload'];
  }

  untilReplies(count: number): Promise<void> {
    return this.#until(`${count} replies`, () => this.replies.length >= count);
  }

  async untilClosed(timeoutMs?: number): Promise<{ code: number; reason: string }> {
    const isOver = () => this.#socket.readyState !== WebSocket.OPEN;
    await this.#changes.until('the end of the socket', isOver, timeoutMs);
    // The close frame has come. After a close from an alarm workerd keeps the connection open for another 10 s.
    this.#socket.terminate();
    await this.#changes.until('the close code', () => this.closed !== undefined);
    return this.closed ?? { code: 0, reason: '' };
  }

  close(): void {
    this.#socket.close(1000);
  }

  /** What is sent to it from now on stays in the network, or where it comes from. */
  stopReading(): void {
    this.#socket.pause();
  }

  readAgain(): void {
    this.#socket.resume();
  }

  /** Without a close frame. */
  terminate(): void {
    this.#socket.terminate();
  }

  onClosed(listener: () => void): void {
    if (this.closed === undefined) this.#socket.once('close', listener);
    else listener();
  }

  /** Fails at once where the socket is closed before `isSo`. */
  async #until(describe: string | (() => string), isSo: () => boolean): Promise<void> {
    await this.#changes.until(describe, () => isSo() || this.closed !== undefined);
    if (!isSo()) throw new Error(`the relay closed the socket: ${JSON.stringify(this.closed)}`);
  }
}

export type FollowerEvents = {
  onPushText: (text: string) => void;
  onLost: () => void;
  /** Every subscription is active again. */
  onBack: () => void;
  /** An attempt to connect again failed; another one follows. */
  onFailedAttempt?: (reason: string) => void;
};

export class RelayFollower {
  readonly #connect: () => Promise<RelayClient>;
  readonly #events: FollowerEvents;
  readonly #retryEveryMs: number;
  readonly #changes = new Changes();
  #client: RelayClient | undefined;
  #isClosed = false;
  /** How often the connection was lost. */
  losses = 0;

  private constructor(connect: () => Promise<RelayClient>, events: FollowerEvents, retryEveryMs: number) {
    this.#connect = connect;
    this.#events = events;
    this.#retryEveryMs = retryEveryMs;
  }

  /** Resolves when every subscription is active. */
  static async start(
    workerUrl: string,
    login: RelayLogin,
    topics: readonly string[],
    events: FollowerEvents,
    retryEveryMs = 100,
  ): Promise<RelayFollower> {
    const connect = async (): Promise<RelayClient> => {
      const { onPushText } = events;
      const client = await RelayClient.open(workerUrl, { onPushText, socket: { perMessageDeflate: false } });
      try {
        await client.follow(login, topics);
      } catch (error) {
        client.terminate();
        throw error;
      }
      return client;
    };
    const follower = new RelayFollower(connect, events, retryEveryMs);
    follower.#take(await connect());
    return follower;
  }

  /** Resolves when the connection was lost so often and every subscription is active again. */
  untilBack(losses: number): Promise<void> {
    return this.#changes.until('the relay again', () => this.losses >= losses && this.#client !== undefined, 60_000);
  }

  close(): void {
    this.#isClosed = true;
    this.#client?.terminate();
  }

  #take(client: RelayClient): void {
    this.#client = client;
    client.onClosed(() => inBackground(this.#comeBack()));
  }

  async #comeBack(): Promise<void> {
    if (this.#isOver()) return;
    this.#client = undefined;
    this.losses += 1;
    this.#events.onLost();
    while (!this.#isOver()) {
      try {
        this.#take(await this.#connect());
        this.#events.onBack();
        if (this.#isOver()) this.close();
        this.#changes.note();
        return;
      } catch (error) {
        this.#events.onFailedAttempt?.(error instanceof Error ? error.message : String(error));
        await sleep(this.#retryEveryMs);
      }
    }
  }

  /** A method, because it changes while something is awaited. */
  #isOver(): boolean {
    return this.#isClosed;
  }
}
