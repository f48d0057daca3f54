// The one TCP proxy: forwards bytes between its clients and one port, each after a fixed delay if set. It can
// reset every connection, or stall them so that no byte passes. It must not look at what it carries.
import { connect, createServer, type Socket } from 'node:net';
import { LoopbackServer } from '../loopback-server.ts';

/** `reset`: connections break and new ones are refused. `stall`: they stay open and no byte passes. */
export type Cut = 'reset' | 'stall';

export class TcpProxy extends LoopbackServer {
  readonly #targetPort: number;
  readonly #delayMs: number;
  readonly #sockets = new Set<Socket>();
  readonly #clients = new Set<Socket>();
  readonly #servers = new Set<Socket>();
  #isHoldingAnswers = false;
  #cut: Cut | null = null;

  private constructor(targetPort: number, delayMs: number) {
    super(createServer({ pauseOnConnect: true }, (near) => this.#take(near)));
    this.#targetPort = targetPort;
    this.#delayMs = delayMs;
  }

  /** `delayMs` is added in each direction and limits nothing: any number of bytes may be under way. */
  static start(targetPort: number, delayMs = 0): Promise<TcpProxy> {
    return new TcpProxy(targetPort, delayMs).listen();
  }

  cut(kind: Cut): void {
    this.#cut = kind;
    if (kind === 'reset') this.#destroyAll();
    else for (const socket of this.#sockets) socket.pause();
  }

  /** After a stall, held bytes go on; with `isLost` they are dropped with their connections. */
  heal(isLost: boolean): void {
    this.#cut = null;
    if (isLost) this.#destroyAll();
    else for (const socket of this.#sockets) socket.resume();
  }

  /** What clients send goes on; what the server answers waits. */
  holdAnswers(): void {
    this.#isHoldingAnswers = true;
    for (const server of this.#servers) server.pause();
  }

  /** The answers are lost with their connections. */
  dropAnswers(): void {
    this.#isHoldingAnswers = false;
    this.#destroyAll();
  }

  /** Ends every connection with last bytes that the server did not send. */
  endClientsWith(bytes: Uint8Array): void {
    for (const client of this.#clients) client.end(bytes);
  }

  override async stop(): Promise<void> {
    this.#destroyAll();
    await super.stop();
  }

  #take(near: Socket): void {
    if (this.#cut === 'reset') {
      near.resetAndDestroy();
      return;
    }
    this.#clients.add(near);
    near.on('close', () => this.#clients.delete(near));
    const far = connect(this.#targetPort, '127.0.0.1');
    this.#servers.add(far);
    far.on('close', () => this.#servers.delete(far));
    this.#join(near, far);
    this.#join(far, near);
    if (this.#isHoldingAnswers) far.pause();
  }

  #join(from: Socket, to: Socket): void {
    this.#sockets.add(from);
    from.setNoDelay(true);
    // A reset shows as 'close', which is passed on below.
    from.on('error', () => undefined);
    // No back-pressure on purpose: what a test sends fits into memory, and a resume after a pause would end a stall.
    from.on('data', (chunk) =>
      this.#later(() => {
        if (to.writable) to.write(chunk);
      }),
    );
    from.on('close', () => {
      this.#sockets.delete(from);
      this.#later(() => to.destroySoon());
    });
    if (this.#cut === 'stall') from.pause();
    else from.resume();
  }

  #later(work: () => void): void {
    if (this.#delayMs === 0) work();
    else setTimeout(work, this.#delayMs);
  }

  #destroyAll(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }
}
