// Stands between the bridge and the Worker and injects failures that the real Worker has no switch for. It refuses batches,
// drops or holds answers after the commit, and cuts the bridge's connection while the Worker still works. Everything else,
// the bridge's WebSocket too, passes unchanged.
import { once } from 'node:events';
import { Agent, createServer, request, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { LoopbackServer } from '../../../rig/loopback-server.ts';

export type GateFaults = {
  /** Answers this status instead of asking the Worker; null asks it. 429 says when to ask again. */
  refuse: () => number | null;
  /** After the Worker has answered: the connection is cut in place of the answer. */
  losesAnswer: () => boolean;
  /** After the Worker has answered this request: the answer is held until `dropHeld` cuts the connection. */
  holdsAnswer: (body: string) => boolean;
  /** The bridge's connection is cut after this long, while the request stays with the Worker. */
  givesUpAfterMs: number | undefined;
};

const noFaults: GateFaults = {
  refuse: () => null,
  losesAnswer: () => false,
  holdsAnswer: () => false,
  givesUpAfterMs: undefined,
};
const maxUpstream = 64;

export class HttpGate extends LoopbackServer {
  readonly #target: URL;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: maxUpstream });
  readonly #held: ServerResponse[] = [];
  #faults = noFaults;
  refused = 0;
  lostAnswers = 0;
  givenUp = 0;

  private constructor(targetUrl: string) {
    const server = createServer((incoming, response) => void this.#take(incoming, response));
    super(server);
    this.#target = new URL(targetUrl);
    server.on('upgrade', (incoming, socket, head) => this.#join(incoming, socket, head));
  }

  static start(targetUrl: string): Promise<HttpGate> {
    return new HttpGate(targetUrl).listen();
  }

  setFaults(faults: Partial<GateFaults>): void {
    this.#faults = { ...noFaults, ...faults };
  }

  /** How many answers are held now. */
  get held(): number {
    return this.#held.length;
  }

  dropHeld(): void {
    for (const response of this.#held.splice(0)) response.destroy();
  }

  override async stop(): Promise<void> {
    this.#agent.destroy();
    await super.stop();
  }

  async #take(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    try {
      const body = await buffer(incoming);
      const status = this.#faults.refuse();
      if (status !== null) {
        this.refused += 1;
        response.writeHead(status, status === 429 ? { 'retry-after': '1' } : {}).end('a fault on request');
        return;
      }
      const { givesUpAfterMs } = this.#faults;
      const giveUp = (): void => {
        this.givenUp += 1;
        incoming.socket.destroy();
      };
      if (givesUpAfterMs !== undefined) timer = setTimeout(giveUp, givesUpAfterMs);
      const { method, url: path, headers } = incoming;
      const upstream = request({ ...this.#address(), method, path, headers, agent: this.#agent }).end(body);
      // Once it has begun to answer, the end of the connection shows at the answer, too.
      upstream.on('error', () => undefined);
      const [answer] = (await once(upstream, 'response')) as [IncomingMessage];
      this.#passOn(body, answer, await buffer(answer), response);
    } catch {
      // One of the two sides closed its connection.
      incoming.socket.destroy();
    } finally {
      clearTimeout(timer);
    }
  }

  #passOn(body: Buffer, { statusCode, headers }: IncomingMessage, answer: Buffer, response: ServerResponse): void {
    if (this.#faults.losesAnswer()) {
      this.lostAnswers += 1;
      response.destroy();
    } else if (this.#faults.holdsAnswer(body.toString())) {
      this.#held.push(response);
    } else {
      const type = headers['content-type'];
      response.writeHead(statusCode ?? 502, type === undefined ? {} : { 'content-type': type }).end(answer);
    }
  }

  #join(incoming: IncomingMessage, near: Duplex, head: Buffer): void {
    const { host: hostname, port } = this.#address();
    const far = connect(port, hostname);
    far.setNoDelay(true);
    const headers = Object.entries(incoming.headers).map(([name, value]) => `${name}: ${String(value)}\r\n`);
    far.write(`${incoming.method ?? 'GET'} ${incoming.url ?? '/'} HTTP/1.1\r\n${headers.join('')}\r\n`);
    far.write(head);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      from.on('error', () => undefined);
      from.on('close', () => to.destroy());
      from.pipe(to);
    }
  }

  #address(): { host: string; port: number } {
    return { host: this.#target.hostname, port: Number(this.#target.port) };
  }
}
