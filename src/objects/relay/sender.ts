// Sends frames to the sockets of a shard, and asks their clients from time to time whether they have read them. Closes
// nothing.
import { parseJson } from '../../domain/json.ts';
import { relayReadingPongSchema, type RelayReadingCheck } from '../../protocol/relay.ts';
import { sendIfOpen } from '../calls/open-socket.ts';
import type { RelayCensus } from './census.ts';

export class RelaySender {
  readonly #census: RelayCensus<WebSocket>;

  constructor(census: RelayCensus<WebSocket>) {
    this.#census = census;
  }

  /** @returns how many frames the socket did not take; undefined, and nothing is sent, where too much is unread */
  send(socket: WebSocket, frames: string[], bytes: number): number | undefined {
    if (!this.#census.mayReceive(socket, bytes)) return undefined;
    const lost = frames.filter((frame) => !sendIfOpen(socket, frame)).length;
    this.#checkReading(socket);
    return lost;
  }

  /** True where the frame is the pong to a ping of this side. */
  takePong(socket: WebSocket, data: string | ArrayBuffer): boolean {
    if (typeof data !== 'string' || !this.#census.isAwaitingPong(socket)) return false;
    const pong = relayReadingPongSchema.safeParse(parseJson(data));
    if (!pong.success || !this.#census.confirmReading(socket, pong.data.id)) return false;
    // More may have been sent since the ping than another one asks about.
    this.#checkReading(socket);
    return true;
  }

  #checkReading(socket: WebSocket): void {
    const id = this.#census.startReadingCheck(socket);
    if (id !== undefined) sendIfOpen(socket, JSON.stringify({ action: 'ping', id } satisfies RelayReadingCheck));
  }
}
