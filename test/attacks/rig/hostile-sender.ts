// Sends generated requests over every route of the reference and judges each answer by it. For the attack beside a bystander
// and for the long run. Starts no part.
import fc from 'fast-check';
import { HostileRequests, type HostileRequest } from '../../../rig/inputs/hostile-requests.ts';
import type { OpenApiDocument } from '../../../rig/inputs/openapi-document.ts';
import type { Tally, Target } from './attack.ts';
import { addressOf, nameOfError, send, times } from './traffic.ts';

/** Made at once: generating one by one is slower than sending. */
const chunk = 100;
/** What costs a hundred milliseconds of hashing: of bodies that may be right one is sent in a while, the others are left out. */
const costly = ['POST /api/v1/users/register', 'POST /api/v1/users/login', 'PUT /api/v1/users/password'];
const costlyEveryMs = 15_000;
/** Over all rounds of an attack, and all parts of a long run that share a thread. */
let nextCostlyAtMs = 0;
/** What is longer is refused before it was read. */
const maxBodyLength = 60_000;

/** At most `count` values until the time is over, a chunk at a time, each chunk from a seed of its own. */
export function* generated<T>(
  arbitrary: fc.Arbitrary<T>,
  count: number,
  untilMs: number,
  seed: number,
): Generator<T[]> {
  for (let made = 0; made < count && performance.now() < untilMs; made += chunk) {
    yield fc.sample(arbitrary, { numRuns: Math.min(chunk, count - made), seed: (seed + made) | 0 });
  }
}

/** Of generated input: at most so many, until then. */
export type Amount = { count: number; untilMs: number; seed: number };

/** Some of what is generated is left out or cannot be sent: it goes on until `count` were sent or the time is over. */
export async function sendHostileRequests(
  target: Pick<Target, 'url' | 'own'>,
  tally: Tally,
  { count, untilMs, clients, seed }: Amount & { clients: number },
): Promise<{ operations: number }> {
  const sender = await HostileSender.prepare(target, tally);
  for (let round = 0; tally.tried < count && performance.now() < untilMs; round += 1) {
    for (const batch of generated(sender.arbitrary, count - tally.tried, untilMs, seed + round * 1_000_003)) {
      await times(clients, batch.length, async (index) => {
        const input = batch[index];
        if (input !== undefined) await sender.send(input);
      });
    }
  }
  await sender.end();
  return { operations: sender.operations };
}

class HostileSender {
  readonly arbitrary: fc.Arbitrary<HostileRequest>;
  readonly operations: number;
  readonly #url: string;
  readonly #requests: HostileRequests;
  readonly #credentials: Record<string, string>[];
  readonly #tally: Tally;
  #address = 0;
  #costly: Promise<void> = Promise.resolve();

  private constructor({ url, own }: Pick<Target, 'url' | 'own'>, document: OpenApiDocument, tally: Tally) {
    const token = { Authorization: `Bearer ${own.token}` };
    this.#credentials = [token, token, token, {}, { Authorization: 'Bearer x.y.z' }];
    this.#requests = new HostileRequests(document);
    this.#url = url;
    this.#tally = tally;
    this.operations = this.#requests.operations.length;
    const objects = { productKey: own.productKey, deviceId: own.devices[0]?.deviceId ?? '', keyId: 'ak_x' };
    this.arbitrary = this.#requests.arbitrary(objects, this.#credentials.length);
  }

  static async prepare(target: Pick<Target, 'url' | 'own'>, tally: Tally): Promise<HostileSender> {
    const document = JSON.parse((await send(`${target.url}/api/v1/openapi.json`)).text) as OpenApiDocument;
    return new HostileSender(target, document, tally);
  }

  async send(input: HostileRequest): Promise<void> {
    if (!costly.includes(input.operation) || !this.#requests.isBodyValid(input)) return this.#send(input);
    if (performance.now() < nextCostlyAtMs) return;
    nextCostlyAtMs = performance.now() + costlyEveryMs;
    // Nobody waits behind it.
    this.#costly = Promise.all([this.#costly, this.#send(input)]).then(() => undefined);
  }

  /** What is still under way has ended. */
  async end(): Promise<void> {
    await this.#costly;
  }

  async #send(input: HostileRequest): Promise<void> {
    // A client of this library cannot announce another length than it sends: raw bytes try that.
    const headers = Object.entries(input.headers).filter(([name]) => name !== 'Content-Length');
    const [method = ''] = input.operation.split(' ');
    const fail = (problem: string) => {
      this.#tally.problem(
        `${input.operation} ${input.url.slice(0, 120)} ${input.body?.slice(0, 160) ?? ''}: ${problem}`,
      );
    };
    try {
      const answer = await send(`${this.#url}${input.url}`, {
        method,
        address: addressOf(this.#address++),
        headers: { ...this.#credentials[input.credential], ...Object.fromEntries(headers) },
        body: input.body,
      });
      this.#tally.note(answer.status);
      // Beyond its limit every route may say so.
      const problem = answer.status === 429 ? undefined : this.#requests.problemOf(input, answer);
      if (problem !== undefined) fail(problem);
    } catch (error) {
      // What cannot be written as a header or a path was never sent.
      if (error instanceof TypeError) return;
      this.#tally.note(nameOfError(error));
      // One that was refused for its size is cut while it is sent.
      const isCut = nameOfError(error) === 'ECONNRESET' && (input.body?.length ?? 0) > maxBodyLength;
      if (!isCut) fail(nameOfError(error));
    }
  }
}
