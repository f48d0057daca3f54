// HTTP/1.1 as small devices write it: bytes on a socket, in the pieces and the letter case that a test wants. Asserts
// nothing.
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as pass } from 'node:timers/promises';

const betweenPiecesMs = 15;

export type RawAnswer = { status: number; headers: Map<string, string>; body: string };

/** Writes the pieces one after the other, each in a segment of its own, and reads one answer. `leaves` ends the sending side after them. */
export async function sendRaw(
  url: string,
  pieces: (string | Uint8Array)[],
  { leaves = false } = {},
): Promise<RawAnswer> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  await once(socket, 'connect');
  const received: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => received.push(chunk));
  const answer = untilAnswered(() => Buffer.concat(received), socket);
  for (const piece of pieces) {
    socket.write(piece);
    // Long enough for the segment to leave by itself; there is no event to wait for.
    await pass(betweenPiecesMs);
  }
  if (leaves) socket.end();
  try {
    return await answer;
  } finally {
    socket.destroy();
  }
}

function untilAnswered(received: () => Buffer, socket: ReturnType<typeof connect>): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    const look = () => {
      const answer = parseAnswer(received().toString('latin1'));
      if (answer !== undefined) resolve(answer);
    };
    socket.on('data', look);
    socket.on('error', reject);
    socket.on('close', () => {
      reject(new Error(`closed after ${JSON.stringify(received().toString())}`));
    });
  });
}

/** undefined while something is missing. */
function parseAnswer(text: string): RawAnswer | undefined {
  const end = text.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const [statusLine = '', ...lines] = text.slice(0, end).split('\r\n');
  const headers = new Map(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  );
  const body = readBody(text.slice(end + 4), headers);
  return body === undefined ? undefined : { status: Number(statusLine.split(' ')[1]), headers, body };
}

function readBody(rest: string, headers: Map<string, string>): string | undefined {
  const length = headers.get('content-length');
  if (length !== undefined) return rest.length < Number(length) ? undefined : decode(rest.slice(0, Number(length)));
  if (headers.get('transfer-encoding') !== 'chunked') return '';
  let body = '';
  let at = 0;
  for (;;) {
    const lineEnd = rest.indexOf('\r\n', at);
    if (lineEnd < 0) return undefined;
    const size = Number.parseInt(rest.slice(at, lineEnd), 16);
    if (size === 0) return decode(body);
    if (rest.length < lineEnd + 2 + size) return undefined;
    body += rest.slice(lineEnd + 2, lineEnd + 2 + size);
    at = lineEnd + 4 + size;
  }
}

function decode(latin1: string): string {
  return Buffer.from(latin1, 'latin1').toString('utf8');
}
