// A network leg that can be cut: hands bytes on between its clients and one port, until told to reset every connection
// or to let nothing through without anybody being told. It must not look at what it carries.
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** `reset`: connections break and new ones are refused. `stall`: they stand, and no byte gets through. */
export type Cut = 'reset' | 'stall';

export class TcpProxy {
  readonly #targetPort: number;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #cut: Cut | null = null;

  private constructor(targetPort: number) {
    this.#targetPort = targetPort;
    this.#server = createServer({ pauseOnConnect: true }, (near) => this.#take(near));
  }

  static async start(targetPort: number): Promise<TcpProxy> {
    const proxy = new TcpProxy(targetPort);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  cut(kind: Cut): void {
    this.#cut = kind;
    if (kind === 'reset') this.#destroyAll();
    else for (const socket of this.#sockets) socket.pause();
  }

  /** After a stall what was held back goes on, or, with `isLost`, is gone with its connections. */
  heal(isLost: boolean): void {
    this.#cut = null;
    if (isLost) this.#destroyAll();
    else for (const socket of this.#sockets) socket.resume();
  }

  async stop(): Promise<void> {
    this.#destroyAll();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #take(near: Socket): void {
    if (this.#cut === 'reset') {
      near.resetAndDestroy();
      return;
    }
    const far = connect(this.#targetPort, '127.0.0.1');
    this.#join(near, far);
    this.#join(far, near);
  }

  #join(from: Socket, to: Socket): void {
    this.#sockets.add(from);
    from.setNoDelay(true);
    from.on('error', () => undefined);
    from.on('data', (chunk) => {
      // Unlimited on purpose: what a test sends fits into memory, and a pause for back-pressure would end a stall.
      if (!to.destroyed) to.write(chunk);
    });
    from.on('close', () => {
      this.#sockets.delete(from);
      to.destroy();
    });
    if (this.#cut === 'stall') from.pause();
    else from.resume();
  }

  #destroyAll(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }
}
