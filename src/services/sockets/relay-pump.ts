// Carries one socket that asked for MQTT's sub-protocol and speaks the relay's language to its shard and back, frame by
// frame. Reads none of them: the shard answers, limits and closes as for any socket of its own.
import { RefusedError } from '../../domain/refusal.ts';
import { answerClose, closeIfOpen, sendIfOpen } from '../../objects/calls/open-socket.ts';
import type { ServiceContext } from '../../context.ts';
import { openRelay } from './open-sockets.ts';

/** What a client sends before its shard has answered. */
const maxEarlyBytes = 65_536;

export class RelayPump {
  readonly #client: WebSocket;
  #shard: WebSocket | undefined;
  readonly #early: (string | ArrayBuffer)[] = [];
  #earlyBytes = 0;
  #hasEnded = false;
  readonly #opening: Promise<void>;

  constructor(context: ServiceContext, request: Request, client: WebSocket, address: string) {
    this.#client = client;
    this.#opening = this.#open(context, request, address);
  }

  async receive(data: string | ArrayBuffer): Promise<void> {
    if (this.#hasEnded) return;
    if (this.#shard !== undefined) {
      sendIfOpen(this.#shard, data);
      return;
    }
    this.#early.push(data);
    this.#earlyBytes += typeof data === 'string' ? data.length : data.byteLength;
    if (this.#earlyBytes > maxEarlyBytes) this.closed(1008);
    await this.#opening;
  }

  /** The shard closes it in time. */
  expire(): void {
    return;
  }

  closed(code: number): void {
    this.#end(code, '');
  }

  async #open(context: ServiceContext, request: Request, address: string): Promise<void> {
    try {
      const { webSocket } = await openRelay(context, request, address);
      if (webSocket === null) throw new Error('a shard opened no socket');
      this.#carry(webSocket);
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      this.#end(1013, error.refusal.kind === 'limit_reached' ? 'too many sockets' : 'unavailable');
    }
  }

  #carry(shard: WebSocket): void {
    shard.binaryType = 'arraybuffer';
    shard.accept();
    shard.addEventListener('message', ({ data }) => sendIfOpen(this.#client, data as string));
    shard.addEventListener('close', ({ code, reason }) => this.#end(code, reason));
    if (this.#hasEnded) {
      closeIfOpen(shard, 1001, '');
      return;
    }
    this.#shard = shard;
    for (const data of this.#early.splice(0)) sendIfOpen(shard, data);
  }

  #end(code: number, reason: string): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    if (this.#shard !== undefined) answerClose(this.#shard, code, reason);
    answerClose(this.#client, code, reason);
  }
}
