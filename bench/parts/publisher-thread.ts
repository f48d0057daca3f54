// The thread of publishers.ts: writes ready-made packets and counts acknowledgements. It must not look into either.
import { on, once } from 'node:events';
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { parentPort, workerData } from 'node:worker_threads';
import { createWebSocketStream, WebSocket } from 'ws';
import type { Line, Load, PublisherData } from './publishers.ts';

/**
 * Reports that are sent and have not arrived at the other end. Without a limit all are published long before the end.
 * The figure then tells how fast a backlog is worked off, not which rate can be kept up.
 */
const maxUnderWay = 10_000;
const lookAgainMs = 1;
const pubackBytes = 4;

type OpenLine = Line & { socket: Duplex };

const { lines, arrived } = workerData as PublisherData;
const opened = await Promise.all(lines.map(async (line) => ({ ...line, socket: await openLine(line) })));
let sentInAll = 0;

if (parentPort === null) throw new Error('publisher-thread.ts runs as a thread of publishers.ts');
const messages = on(parentPort, 'message') as AsyncIterable<[Load[]]>;
parentPort.postMessage('connected');
for await (const [loads] of messages) {
  sentInAll = 0;
  await Promise.all(loads.map((load, index) => send(opened[index], load)));
  parentPort.postMessage('acknowledged');
}

async function openLine({ url, connect: packet }: Line): Promise<Duplex> {
  const socket = dial(url);
  socket.write(packet);
  const closed = once(socket, 'close').then(() => [Buffer.alloc(0)]);
  const [answer] = (await Promise.race([once(socket, 'data'), closed])) as [Buffer];
  if (answer[0] !== 0x20 || answer[3] !== 0) {
    const how = answer.length === 0 ? 'closes the connection' : `answers ${answer.toString('hex')}`;
    throw new Error(`${url} refuses a publisher: it ${how}`);
  }
  return socket;
}

function dial(url: string): Duplex {
  const { protocol, hostname, port } = new URL(url);
  if (protocol === 'tcp:') return connect({ host: hostname, port: Number(port), noDelay: true });
  const socket = new WebSocket(url, 'mqtt', { perMessageDeflate: false });
  socket.on('upgrade', (response) => response.socket.setNoDelay(true));
  const stream = createWebSocketStream(socket);
  socket.once('close', (code, reason) => stream.destroy(new Error(`closed with ${code} ${reason.toString()}`)));
  // `send` notices the close that follows.
  stream.on('error', () => undefined);
  return stream;
}

function send(line: OpenLine | undefined, { bytes, ends }: Load): Promise<void> {
  if (line === undefined) throw new Error('a load without a line');
  const { socket, url, packetsAWrite, maxUnacknowledged } = line;
  return new Promise((resolve, reject) => {
    let sent = 0;
    let acknowledgedBytes = 0;
    let isWaiting = false;
    const sendMore = (): void => {
      while (sent < ends.length && sent - acknowledgedBytes / pubackBytes < maxUnacknowledged) {
        if (sentInAll - Atomics.load(arrived, 0) >= maxUnderWay) {
          lookAgain();
          return;
        }
        const next = Math.min(sent + packetsAWrite, ends.length);
        socket.write(bytes.subarray(sent === 0 ? 0 : ends[sent - 1], ends[next - 1]));
        sentInAll += next - sent;
        sent = next;
      }
    };
    const lookAgain = (): void => {
      if (isWaiting) return;
      isWaiting = true;
      setTimeout(() => {
        isWaiting = false;
        sendMore();
      }, lookAgainMs);
    };
    const count = (chunk: Buffer): void => {
      acknowledgedBytes += chunk.length;
      sendMore();
      if (acknowledgedBytes < ends.length * pubackBytes) return;
      socket.off('data', count);
      socket.off('close', fail);
      resolve();
    };
    const fail = (): void => {
      const cause = socket.errored?.message ?? 'without an error';
      reject(
        new Error(`a publisher’s connection to ${url} ended (${cause}), ${sent} sent, ${acknowledgedBytes} bytes back`),
      );
    };
    socket.on('data', count);
    socket.once('close', fail);
    if (ends.length === 0) count(Buffer.alloc(0));
    else sendMore();
  });
}
