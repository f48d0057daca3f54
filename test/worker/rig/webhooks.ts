// The receiver of webhooks of the Worker under test, in place of `fetch`: what was sent to it, and what it answers.
import { vi } from 'vitest';
import { call, type TestUser } from './clients/client.ts';

export type Made = { webhookId: string; secret: string; url: string };
export type Received = {
  id: string;
  body: string;
  headers: Record<string, string>;
  data: Record<string, unknown>;
  type: string;
};

export const webhookBody = { url: 'https://receiver.example/hook', types: ['device.online', 'device.offline'] };

export const agree = ({ data }: Received): Response => Response.json({ challenge: data['challenge'] });

export function receiveWebhooks() {
  const answerTo: (message: Received) => Response | Promise<Response> = agree;
  const receiver = { received: [] as Received[], answerTo };
  vi.spyOn(globalThis, 'fetch').mockImplementation(async (input, init) => {
    const request = new Request(input, init);
    const body = await request.text();
    const { type, data } = JSON.parse(body) as Pick<Received, 'type' | 'data'>;
    const headers = Object.fromEntries([...request.headers].filter(([name]) => name.startsWith('webhook-')));
    const message = { id: headers['webhook-id'] ?? '', body, headers, type, data };
    receiver.received.push(message);
    return receiver.answerTo(message);
  });
  return receiver;
}

export const makeWebhook = async ({ token }: TestUser, more: object = {}): Promise<Made> =>
  (await call<Made>('POST', '/webhooks', { token, body: { ...webhookBody, ...more } })).data;
