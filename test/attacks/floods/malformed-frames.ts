// WebSocket frames that RFC 6455 forbids or that never end, at the address of relay and direct connections. No library sends them.
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Random } from '../../../rig/inputs/random.ts';
import { Tally, type Attack } from '../rig/attack.ts';
import { addressOf, endOf, inParallel, nameOfError } from '../rig/traffic.ts';

const waitMs = 50;
const nothing = Buffer.alloc(0);
const internalError = 1011;

/** @throws Error if the service does not open one */
function openByHand(url: string, headers: Record<string, string>): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => undefined);
  socket.write(
    [
      'GET /mqtt HTTP/1.1',
      `Host: ${hostname}:${port}`,
      'Upgrade: websocket',
      'Connection: Upgrade',
      'Sec-WebSocket-Version: 13',
      'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
      ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
      '\r\n',
    ].join('\r\n'),
  );
  return new Promise((resolve, reject) => {
    socket.once('data', (chunk: Buffer) => {
      if (chunk.toString().startsWith('HTTP/1.1 101')) resolve(socket);
      else reject(new Error(`no WebSocket: ${chunk.toString().slice(0, 80)}`));
    });
    socket.once('close', () => reject(new Error('no WebSocket: closed')));
  });
}

/** A client's frame with the mask 0, for bodies up to 64 KiB. @param first FIN, reserved bits and opcode */
function frameOf(first: number, body: Buffer): Buffer {
  const head = body.length < 126 ? [first, 0x80 | body.length] : [first, 0xfe, body.length >> 8, body.length & 255];
  return Buffer.concat([Buffer.from([...head, 0, 0, 0, 0]), body]);
}

const crafted: Buffer[] = [
  // Unmasked; with reserved bits; with an opcode that is none.
  Buffer.from([0x81, 0x04, 0x70, 0x69, 0x6e, 0x67]),
  frameOf(0xf1, Buffer.from('x')),
  frameOf(0x83, Buffer.from('x')),
  // A length of 2^63, one of 1 GiB that never comes, and one written longer than it has to be.
  Buffer.from([0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
  Buffer.from([0x82, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0]),
  Buffer.from([0x82, 0xfe, 0, 1, 0, 0, 0, 0, 0x10]),
  // A continuation of nothing; a message that begins twice; a control frame in parts, and one that is too long.
  frameOf(0x80, Buffer.from('x')),
  Buffer.concat([frameOf(0x01, Buffer.from('x')), frameOf(0x01, Buffer.from('x'))]),
  frameOf(0x09, nothing),
  frameOf(0x89, Buffer.alloc(200)),
  // Text that is no UTF-8; closing codes that are none.
  frameOf(0x81, Buffer.from([0xc3, 0x28, 0xff])),
  frameOf(0x88, Buffer.from([0x03])),
  frameOf(0x88, Buffer.from([0x00, 0x00])),
  // A frame of one byte at a time, in a message without end.
  Buffer.concat([frameOf(0x02, Buffer.from([0x10])), ...Array.from({ length: 200 }, () => frameOf(0x00, nothing))]),
];

export const malformedFrames: Attack[] = [
  {
    name: 'malformed-frames',
    title: 'WebSocket frames that are forbidden, cut and changed, at relay and direct connections, before any login',
    holds: 'the connection ends, or waits for the rest until its deadline',
    run: async ({ url }, { seconds, clients, seed }) => {
      const tally = new Tally();
      const random = new Random(seed);
      await inParallel(clients, endOf(seconds), async (number) => {
        const bytes = Buffer.from(crafted[number % crafted.length] ?? nothing);
        if (number % 3 === 0) bytes[random.between(0, bytes.length - 1)] = random.between(0, 255);
        const asks = number % 2 === 0 ? { 'Sec-WebSocket-Protocol': 'mqtt' } : {};
        try {
          const socket = await openByHand(url, { 'CF-Connecting-IP': addressOf(number), ...asks });
          const answered = new Promise<Buffer>((resolve) => socket.once('data', resolve));
          const closed = new Promise<'closed'>((resolve) => socket.once('close', () => resolve('closed')));
          socket.write(Buffer.concat([bytes, frameOf(0x81, Buffer.from('{"action":"ping"}'))]));
          const first = (await Promise.race([answered, closed, sleep(waitMs)])) ?? 'waiting';
          const code = typeof first !== 'string' && first[0] === 0x88 && first.length >= 4 ? first.readUInt16BE(2) : 0;
          tally.note(typeof first === 'string' ? first : code > 0 ? `closed ${code}` : 'answered');
          if (code === internalError) tally.problem(`the service fails at ${bytes.subarray(0, 40).toString('hex')}`);
          socket.destroy();
        } catch (error) {
          tally.note(nameOfError(error));
        }
      });
      return tally.result();
    },
  },
];
