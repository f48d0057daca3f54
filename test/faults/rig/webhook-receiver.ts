// A receiver of webhooks that misbehaves as it is told, and judges each message as it comes: its signature, its id, its order. What
// it has answered with 2xx counts as arrived, whether the Worker learns of it or not.
import type { ServerResponse } from 'node:http';
import { Webhook } from 'standardwebhooks';
import { Changes } from '../../../rig/changes.ts';
import { WebhookReceiver, type Received } from '../../../rig/services/webhook-receiver.ts';

export type Answer = '200' | '500' | '410' | '301' | 'hang' | 'reset' | '10 MiB';
const answers: Record<Answer, (response: ServerResponse) => unknown> = {
  200: (response) => response.end(),
  500: (response) => response.writeHead(500).end(),
  410: (response) => response.writeHead(410).end(),
  301: (response) => response.writeHead(301, { Location: '/elsewhere' }).end(),
  hang: () => undefined,
  reset: (response) => response.socket?.resetAndDestroy(),
  '10 MiB': (response) => response.end(tenMebibytes),
};

const tenMebibytes = Buffer.alloc(10 * 1024 * 1024, 'x');
const accepted: readonly Answer[] = ['200', '10 MiB'];

type Message = { type: string; data: { deviceId: string; number: number; from: number; to: number } };

/** Answers, `repeated` messages, and numbers `in gaps`. */
type Counts = Map<string, number>;

export class JudgingReceiver {
  readonly server: WebhookReceiver;
  secret = '';
  /** Chosen for each message. */
  choose: () => Answer = () => '200';
  /** Holds up the next message for ever. */
  isHolding = false;
  readonly changes = new Changes();
  readonly failures: string[] = [];
  /** By id. */
  readonly bodies = new Map<string, string>();
  readonly #counts: Counts;
  readonly #arrivedUpTo = new Map<string, number>();

  private constructor(server: WebhookReceiver, counts: Counts) {
    this.server = server;
    this.#counts = counts;
    server.answer = (response, { url }, message) => {
      // It gathers here instead.
      server.received.length = 0;
      if (url !== '/hook') this.failures.push(`a request came to ${url}`);
      this.#receive(message, response);
    };
  }

  static async start(counts: Counts): Promise<JudgingReceiver> {
    return new JudgingReceiver(await WebhookReceiver.start(), counts);
  }

  /** Number of the last event of the device that arrived, or that a gap named. */
  arrivedUpTo(deviceId: string): number {
    return this.#arrivedUpTo.get(deviceId) ?? 0;
  }

  #receive(message: Received, response: ServerResponse): void {
    const { body, headers } = message;
    const { type, data } = JSON.parse(body) as Message;
    this.#verify(message);
    const { deviceId, number } = data;
    const [first, last] = type === 'gap' ? [data.from, data.to] : [number, number];
    const id = `msg_${deviceId}_${type === 'gap' ? `${first}-${last}` : number}`;
    if (headers['webhook-id'] !== id) this.failures.push(`${id} has another id`);
    const former = this.bodies.get(id);
    if (former !== undefined) this.#count('repeated');
    if ((former ?? body) !== body) this.failures.push(`${id} came with another body`);
    this.bodies.set(id, body);
    const arrived = this.arrivedUpTo(deviceId);
    if (first > arrived + 1) this.failures.push(`${id} came before ${arrived + 1}`);
    if (this.isHolding) {
      this.isHolding = false;
      this.changes.note();
      return;
    }
    const answer = this.choose();
    this.#count(answer);
    if (accepted.includes(answer)) {
      this.#arrivedUpTo.set(deviceId, Math.max(arrived, last));
      if (type === 'gap') this.#count('in gaps', Math.max(0, last - Math.max(arrived, first - 1)));
    }
    answers[answer](response);
    this.changes.note();
  }

  #verify({ body, headers }: Received): void {
    try {
      new Webhook(this.secret).verify(body, headers);
    } catch (error) {
      this.failures.push(`not verified: ${String(error)}`);
    }
  }

  #count(what: string, by = 1): void {
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + by);
  }
}
