// The thread of publishers.ts: writes ready-made packets and counts acknowledgements. It must not look into either.
import { on, once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';
import type { Load, PublisherData } from './publishers.ts';

/** Packets of one connection that the broker has not acknowledged yet. */
const maxUnacknowledged = 1_000;
const packetsAWrite = 100;
const pubackBytes = 4;
/**
 * Reports that are sent and have not arrived at the other end. Without a limit everything is published long before the
 * end, and the figure tells how fast a backlog is worked off, not which rate can be kept up.
 */
const maxUnderWay = 10_000;
const lookAgainMs = 1;
const noLoad: Load = { bytes: new Uint8Array(), ends: new Uint32Array() };

const { port, connections, arrived } = workerData as PublisherData;
const sockets = await Promise.all(Array.from({ length: connections }, (_, index) => openConnection(index)));

let sentInAll = 0;

if (parentPort === null) throw new Error('publisher-thread.ts runs as a thread of publishers.ts');
const messages = on(parentPort, 'message') as AsyncIterable<[Load[]]>;
parentPort.postMessage('connected');
for await (const [loads] of messages) {
  sentInAll = 0;
  await Promise.all(sockets.map((socket, index) => send(socket, loads[index] ?? noLoad)));
  parentPort.postMessage('acknowledged');
}

/** MQTT 3.1.1, clean session, no keep-alive. */
async function openConnection(index: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  socket.setNoDelay(true);
  const name = `bench-publisher-${index}`;
  const fixed = [0, 4, 0x4d, 0x51, 0x54, 0x54, 4, 2, 0, 0, 0, name.length];
  socket.write(Buffer.concat([Buffer.from([0x10, fixed.length + name.length, ...fixed]), Buffer.from(name)]));
  const [answer] = (await once(socket, 'data')) as [Buffer];
  if (answer[0] !== 0x20 || answer[3] !== 0) throw new Error('the broker refuses the publishers');
  return socket;
}

function send(socket: Socket, { bytes, ends }: Load): Promise<void> {
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
    const fail = (): void => reject(new Error('the broker closed a publisher’s connection'));
    socket.on('data', count);
    socket.once('close', fail);
    if (ends.length === 0) count(Buffer.alloc(0));
    else sendMore();
  });
}
