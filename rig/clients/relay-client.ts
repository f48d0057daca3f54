// One connection to the relay, for tests, faults and benchmarks that look at its frames. What shall come back by itself is
// the client package's `Relay`. Asserts nothing.
import { WebSocket, type ClientOptions } from 'ws';
import { Changes } from '../changes.ts';

export type Frame = Record<string, unknown>;
export type RelayLogin = { token: string } | { username: string; password: string };

export type RelayOptions = {
  socket?: ClientOptions;
  /** Called with every frame, before the client itself reads it. */
  onFrame?: (frame: Frame, isBinary: boolean) => void;
  /** Called with the text of each push; the client then neither parses nor keeps pushes. */
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

  /** @throws Error if there is no connection */
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

  /** Ends the connection without a close frame. */
  terminate(): void {
    this.#socket.terminate();
  }

  /** Fails at once if the socket is closed before `isSo`. */
  async #until(describe: string | (() => string), isSo: () => boolean): Promise<void> {
    await this.#changes.until(describe, () => isSo() || this.closed !== undefined);
    if (!isSo()) throw new Error(`the relay closed the socket: ${JSON.stringify(this.closed)}`);
  }
}
