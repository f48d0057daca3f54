// A receiver of webhooks on this machine. It agrees to every challenge and answers as its user says. Judges nothing.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { LoopbackServer } from '../loopback-server.ts';

export type Received = { body: string; headers: Record<string, string> };
export type Answer = (response: ServerResponse, request: IncomingMessage, message: Received) => unknown;

export class WebhookReceiver extends LoopbackServer {
  readonly received: Received[] = [];
  answer: Answer = (response) => response.end();
  requests = 0;

  private constructor() {
    super(createServer((request, response) => void this.#receive(request, response)));
  }

  static start(): Promise<WebhookReceiver> {
    return new WebhookReceiver().listen();
  }

  async #receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.requests += 1;
    const message = { body: await text(request), headers: request.headers as Record<string, string> };
    this.received.push(message);
    const { type, data } = JSON.parse(message.body) as { type: string; data: { challenge?: string } };
    if (type === 'endpoint.challenge') response.end(JSON.stringify({ challenge: data.challenge }));
    else this.answer(response, request, message);
  }
}
