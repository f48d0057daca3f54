// A server inside the test's process, on a free port of this machine unless the caller names one. Its subclass says what it answers.
import { once } from 'node:events';
import type { Server as HttpServer } from 'node:http';
import type { AddressInfo, Server } from 'node:net';

export class LoopbackServer {
  readonly #server: Server | HttpServer;

  protected constructor(server: Server | HttpServer) {
    this.#server = server;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async stop(): Promise<void> {
    if ('closeAllConnections' in this.#server) this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  protected async listen(port = 0): Promise<this> {
    this.#server.listen(port, '127.0.0.1');
    await once(this.#server, 'listening');
    return this;
  }
}
