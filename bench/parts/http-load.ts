// Sends HTTP/1.1 requests over a few connections, the next one when an answer is complete, and looks at every answer. With
// sockets of its own: Node's HTTP client would take longer than the Worker that it measures.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

type Request = { path: string; token?: string; body?: object };
export type HttpRequest = Request & { expected: string };

const headEnd = '\r\n\r\n';
const lastChunk = '0\r\n\r\n';
const answersWithinMs = 60_000;

/** `count` requests in all, in turn those of `requests`, over new connections: workerd closes one that rests for 5 s. */
export async function loadHttp(
  port: number,
  connections: number,
  requests: readonly HttpRequest[],
  count: number,
): Promise<{ perSecond: number; problems: string[] }> {
  const ready = requests.map((request) => ({ bytes: encodeRequest(request), expected: request.expected }));
  const sockets = await Promise.all(Array.from({ length: connections }, () => openConnection(port)));
  const problems = new Set<string>();
  let next = 0;
  const askInTurn = async (opened: Socket): Promise<void> => {
    let socket = opened;
    for (;;) {
      const request = next < count ? ready[next % ready.length] : undefined;
      if (request === undefined) return;
      next += 1;
      // workerd may close a connection that has rested on a busy machine; a read can be asked again.
      const answer = await ask(socket, request.bytes).catch(async (error: unknown) => {
        if ((error as NodeJS.ErrnoException).code !== 'ECONNRESET') throw error;
        sockets.push((socket = await openConnection(port)));
        return ask(socket, request.bytes);
      });
      if (!answer.startsWith('HTTP/1.1 200')) problems.add(`answered ${answer.slice(0, 400)}`);
      else if (!answer.includes(request.expected))
        problems.add(`an answer lacks ${request.expected}: ${answer.slice(-300)}`);
    }
  };
  try {
    const startedAtMs = performance.now();
    await Promise.all(sockets.map(askInTurn));
    const perSecond = (count * 1000) / (performance.now() - startedAtMs);
    return { perSecond, problems: [...problems].slice(0, 3) };
  } finally {
    for (const socket of sockets) socket.destroy();
  }
}

export async function openConnection(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  await once(socket, 'connect');
  return socket;
}

/** GET, or POST with a body. */
export function encodeRequest({ path, token, body }: Request): Buffer {
  const authorization = token === undefined ? '' : `Authorization: Bearer ${token}\r\n`;
  const head = `HTTP/1.1\r\nHost: 127.0.0.1\r\n${authorization}`;
  if (body === undefined) return Buffer.from(`GET ${path} ${head}\r\n`);
  const json = JSON.stringify(body);
  const length = Buffer.byteLength(json);
  return Buffer.from(`POST ${path} ${head}Content-Type: application/json\r\nContent-Length: ${length}\r\n\r\n${json}`);
}

/** Resolves with the whole answer as text. */
export function ask(socket: Socket, request: Buffer): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  let text = '';
  const take = (chunk: Buffer): void => {
    text += chunk.toString('latin1');
    if (isComplete(text)) finish(() => resolve(text));
  };
  const fail = (error: Error): void => finish(() => reject(error));
  const noteClosed = (): void => fail(Object.assign(new Error('the connection was closed'), { code: 'ECONNRESET' }));
  const timer = setTimeout(() => fail(new Error(`no complete answer: ${text.slice(0, 300)}`)), answersWithinMs);
  const finish = (end: () => void): void => {
    clearTimeout(timer);
    socket.off('data', take);
    socket.off('error', fail);
    socket.off('close', noteClosed);
    end();
  };
  socket.on('data', take);
  socket.on('error', fail);
  socket.on('close', noteClosed);
  socket.write(request);
  return promise;
}

function isComplete(text: string): boolean {
  const bodyAt = text.indexOf(headEnd) + headEnd.length;
  if (bodyAt < headEnd.length) return false;
  const length = /\r\ncontent-length: (\d+)/i.exec(text.slice(0, bodyAt))?.[1];
  return length === undefined ? text.endsWith(lastChunk) : text.length >= bodyAt + Number(length);
}
