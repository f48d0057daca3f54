// Clients that begin and do not end: headers that trickle, bodies that are torn, connections that only connect.
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Tally, type Attack } from '../rig/attack.ts';
import { openTcp } from '../rig/raw-socket.ts';
import { endOf, inParallel, nameOfError } from '../rig/traffic.ts';

const open = (url: string): Promise<Socket> => openTcp(new URL(url).port);

const head = (more: string[]): string =>
  ['POST /api/v1/users/login HTTP/1.1', 'Host: latchwork', 'Content-Type: application/json', ...more].join('\r\n');

async function readAnswer(socket: Socket, withinMs: number): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  socket.once('data', (chunk: Buffer) => resolve(chunk.toString('latin1')));
  socket.once('close', () => resolve(''));
  return Promise.race([promise, sleep(withinMs, '')]);
}

/** What comes back until the other side or nobody speaks any more. */
async function readAll(socket: Socket, withinMs: number): Promise<string> {
  let text = '';
  socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')));
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  await Promise.race([closed, sleep(withinMs)]);
  return text;
}

export const halfOpen: Attack[] = [
  {
    name: 'trickled-headers',
    title: 'connections that send one header byte a second',
    holds: 'everybody else is served meanwhile (bystander)',
    run: async ({ url }, { sockets, seconds }) => {
      const tally = new Tally();
      const open_ = await Promise.allSettled(Array.from({ length: Math.min(sockets, 1_000) }, () => open(url)));
      const all = open_.flatMap((attempt) => (attempt.status === 'fulfilled' ? [attempt.value] : []));
      for (const attempt of open_) tally.note(attempt.status === 'fulfilled' ? 'opened' : nameOfError(attempt.reason));
      const text = head([`X-Slow: ${'y'.repeat(10_000)}`]);
      const untilMs = endOf(seconds);
      for (let at = 0; performance.now() < untilMs; at += 1) {
        for (const socket of all) if (!socket.destroyed) socket.write(text.charAt(at));
        await sleep(1_000);
      }
      for (const socket of all) socket.destroy();
      return tally.result();
    },
  },
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
  {
    name: 'torn-bodies',
    title: 'bodies that are malformed in their chunks, and clients that leave in the middle of one',
    holds: '400 or nothing, never a 5xx of the service',
    run: async ({ url }, { seconds, clients }) => {
      const tally = new Tally();
      const chunked = head(['Transfer-Encoding: chunked', '', '']);
      const torn = [
        `${chunked}zz\r\n{}\r\n0\r\n\r\n`,
        `${chunked}5\r\n{"use`,
        `${chunked}2\r\n{}XX0\r\n\r\n`,
        `${chunked}ffffffffffffffff\r\n{}`,
        `${chunked}-1\r\n{}\r\n`,
        `${head(['Content-Length: 100', '', ''])}{"username":"x"`,
        `${head(['Content-Length: 5', 'Transfer-Encoding: chunked', '', ''])}0\r\n\r\n`,
        `${head(['Content-Length: -5', '', ''])}{}`,
        `${head(['Content-Length: 2, 3', '', ''])}{}`,
      ];
      await inParallel(clients, endOf(seconds), async (number) => {
        try {
          const socket = await open(url);
          socket.on('error', () => undefined);
          const text = torn[number % torn.length] ?? '';
          // Half of them leave at once, the other half closes its side and waits for the answer.
          if (number % 2 === 0) socket.write(text, () => socket.resetAndDestroy());
          else socket.end(text);
          const answer = await readAll(socket, 1_000);
          const status = /^HTTP\/1\.1 (\d+)/.exec(answer)?.[1] ?? 'no answer';
          // A length that is no number never comes to the service: workerd answers it, on Cloudflare itself.
          const isOfService = /^x-request-id:/im.test(answer);
          tally.note(isOfService || answer === '' ? status : `${status} of workerd`);
          if (isOfService && status.startsWith('5')) tally.problem(`${status} to ${JSON.stringify(text.slice(-60))}`);
          socket.destroy();
        } catch (error) {
          tally.note(nameOfError(error));
        }
      });
      return tally.result();
    },
  },
];
