// A relay client for the conformance suite: replies in the order they come, pushes beside them, and every frame held
// against the served AsyncAPI document.
import { expect } from 'vitest';
import { WebSocket } from 'ws';
import { Changes } from './changes.ts';
import { service } from './conformance-client.ts';
import { createSchemaCheck, type JsonSchema } from './json-schema.ts';

type AsyncApiDocument = { components: { messages: Record<string, { payload: JsonSchema }> } };
export type Frame = Record<string, unknown>;

const document = (await (await fetch(`${service.url}/api/v1/asyncapi.json`)).json()) as AsyncApiDocument;
const check = createSchemaCheck(document, { isClosed: true });
const fromService = ['AuthReply', 'SubscribeReply', 'UnsubscribeReply', 'Pong', 'Unreadable', 'Push'];

export class RelayClient {
  readonly pushes: Frame[] = [];
  readonly replies: Frame[] = [];
  closed: { code: number; reason: string } | undefined;
  readonly #socket: WebSocket;
  readonly #changes = new Changes();

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on('message', (data, isBinary) => {
      const frame = JSON.parse((data as Buffer).toString()) as Frame;
      const problems = fromService.map((name) => check(document.components.messages[name]?.payload ?? {}, frame));
      expect(isBinary || problems.every((list) => list.length > 0), JSON.stringify(frame)).toBe(false);
      ('payload' in frame ? this.pushes : this.replies).push(frame);
      this.#changes.note();
    });
    socket.on('close', (code, reason) => {
      this.closed = { code, reason: reason.toString() };
      this.#changes.note();
    });
    socket.on('error', () => undefined);
  }

  static async open(headers: Record<string, string> = {}): Promise<RelayClient> {
    const client = new RelayClient(new WebSocket(`${service.url.replace('http', 'ws')}/mqtt`, { headers }));
    await client.#changes.until('an open socket', () => client.#socket.readyState === WebSocket.OPEN);
    return client;
  }

  /** Objects go as JSON, anything else as it is. */
  send(frame: Frame | string | Buffer): void {
    this.#socket.send(typeof frame === 'string' || Buffer.isBuffer(frame) ? frame : JSON.stringify(frame));
  }

  async nextReply(): Promise<Frame> {
    await this.#changes.until('a reply', () => this.replies.length > 0);
    return this.replies.shift() ?? {};
  }

  async ask(frame: Frame | string | Buffer): Promise<Frame> {
    this.send(frame);
    return this.nextReply();
  }

  async nextPush(): Promise<Frame> {
    await this.#changes.until('a push', () => this.pushes.length > 0);
    return this.pushes.shift() ?? {};
  }

  async untilClosed(timeoutMs?: number): Promise<{ code: number; reason: string }> {
    const isOver = () => this.#socket.readyState !== WebSocket.OPEN;
    await this.#changes.until('the end of the socket', isOver, timeoutMs);
    // The frame that says why has come. After a close from an alarm workerd keeps the connection for another 10 s.
    this.#socket.terminate();
    await this.#changes.until('its code', () => this.closed !== undefined);
    return this.closed ?? { code: 0, reason: '' };
  }

  close(): void {
    this.#socket.close();
  }
}
