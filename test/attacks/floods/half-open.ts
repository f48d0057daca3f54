// Clients whose requests begin and do not end. Headers are read by the platform, bodies by the Worker.
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Tally, type Attack } from '../rig/attack.ts';

function open(url: string): Promise<Socket> {
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1' });
  return new Promise((resolve, reject) => {
    socket.once('connect', () => resolve(socket));
    socket.on('error', reject);
  });
}

const head = (more: string[]): string =>
  ['POST /api/v1/users/login HTTP/1.1', 'Host: latchwork', 'Content-Type: application/json', ...more].join('\r\n');

async function readAnswer(socket: Socket, withinMs: number): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  socket.once('data', (chunk: Buffer) => resolve(chunk.toString('latin1')));
  socket.once('close', () => resolve(''));
  return Promise.race([promise, sleep(withinMs, '')]);
}

export const halfOpen: Attack[] = [
  {
    name: 'held-bodies',
    title: 'requests without a sign-in whose bodies begin and never end',
    holds: 'each is answered 400 after a deadline',
    isOnce: true,
    run: async ({ url }, { sockets }) => {
      const tally = new Tally();
      const begins = [
        `${head(['Content-Length: 100', '', ''])}{"username":"x"`,
        `${head(['Transfer-Encoding: chunked', '', ''])}5\r\n{"use`,
        head(['Content-Length: 5', '', '']),
        head(['Content-Length: 100', '', '']).replace('users/login', 'devices/activate'),
      ];
      const all = Array.from({ length: Math.min(sockets, 100) }, async (_, number) => {
        const socket = await open(url);
        socket.on('error', () => undefined);
        socket.write(begins[number % begins.length] ?? '');
        const answer = await readAnswer(socket, 20_000);
        tally.note(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1] ?? 'no answer within 20 s');
        socket.destroy();
      });
      await Promise.all(all);
      if (tally.of(400) < tally.tried) tally.problem(`only ${tally.of(400)} of ${tally.tried} were answered 400`);
      return tally.result();
    },
  },
];
