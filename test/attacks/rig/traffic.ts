// How attackers send: HTTP over kept connections from an address that Cloudflare's edge would name, and closed loops of clients.
// Judges nothing.
import { Agent, request } from 'node:http';

const kept = new Agent({ keepAlive: true, maxSockets: 512 });

export type HttpAnswer = {
  status: number;
  text: string;
  retryAfter: string | null;
};

export type HttpRequest = {
  method?: string;
  headers?: Record<string, string>;
  body?: string | undefined;
  /** What Cloudflare's edge would set; in front of a local Worker nobody sets it, so that attackers can have many. */
  address?: string;
};

/** @throws Error if the connection fails */
export async function send(url: string, request: HttpRequest = {}): Promise<HttpAnswer> {
  try {
    return await sendOver(kept, url, request);
  } catch (error) {
    // The server may end a kept connection at the moment of its next use, and with it all that rested for as long. So the
    // second try goes over a new connection. The server also cuts a body that it does not want, and the answer with it.
    if (error instanceof LostConnection) return sendOver(false, url, request);
    throw error;
  }
}

class LostConnection extends Error {
  readonly code = 'ECONNRESET';
}

function sendOver(
  agent: Agent | false,
  url: string,
  { method = 'GET', headers = {}, body, address }: HttpRequest,
): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    const all = {
      ...(body !== undefined && { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }),
      ...(address !== undefined && { 'CF-Connecting-IP': address }),
      ...headers,
    };
    const fail = (error: NodeJS.ErrnoException): void => {
      const isLost = ['ECONNRESET', 'EPIPE'].includes(error.code ?? '');
      reject(isLost ? new LostConnection(error.message) : error);
    };
    const outgoing = request(url, { method, agent, headers: all, timeout: 90_000 }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', fail);
      response.on('end', () => {
        const { statusCode: status = 0, headers: received } = response;
        resolve({ status, text: Buffer.concat(chunks).toString(), retryAfter: received['retry-after'] ?? null });
      });
    });
    outgoing.on('timeout', () => outgoing.destroy(new Error('no answer within 90 s')));
    outgoing.on('error', fail);
    outgoing.end(body);
  });
}

/** Addresses from a network that is reserved for benchmarks (RFC 2544): 131 072 of them. */
export function addressOf(number: number): string {
  return `198.${18 + ((number >> 16) & 1)}.${(number >> 8) & 255}.${number & 255}`;
}

/** `clients` closed loops, each sending the next when the last was answered. */
export async function inParallel(
  clients: number,
  untilMs: number,
  task: (number: number) => Promise<void>,
): Promise<void> {
  let number = 0;
  const loop = async (): Promise<void> => {
    while (performance.now() < untilMs) await task(number++);
  };
  await Promise.all(Array.from({ length: clients }, loop));
}

/** `count` calls, at most `clients` at once. */
export async function times(clients: number, count: number, task: (number: number) => Promise<void>): Promise<void> {
  let number = 0;
  const loop = async (): Promise<void> => {
    while (number < count) await task(number++);
  };
  await Promise.all(Array.from({ length: clients }, loop));
}

export const endOf = (seconds: number): number => performance.now() + seconds * 1000;

/** The error's own word, for counting. */
export function nameOfError(error: unknown): string {
  return error instanceof Error ? ((error as NodeJS.ErrnoException).code ?? error.message) : String(error);
}
