// Attacks on devices' own direct connections, by strangers: logins with wrong passwords, and connections without a login.
import { generate } from 'mqtt-packet';
import { WebSocket } from 'ws';
import { Random } from '../../../rig/inputs/random.ts';
import { Tally, type Attack, type Target } from '../rig/attack.ts';
import { addressOf, endOf, inParallel, times } from '../rig/traffic.ts';

const answerWithinMs = 10_000;
/** The service closes them after 10 s. */
const closedWithinMs = 45_000;
const oneAddress = '192.0.2.99';

/** What a direct connection answers first to `bytes`: a packet, its end, or why it was not opened. */
function ask(
  { url, victim }: Target,
  number: number,
  bytes: Buffer,
  { patienceMs = answerWithinMs, address = addressOf(number) } = {},
): Promise<Buffer | `closed ${number}` | `refused: ${string}` | 'silent'> {
  const headers = { 'CF-Connecting-IP': address };
  const options = { headers, perMessageDeflate: false };
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/mqtt/${victim.deviceId}`, 'mqtt', options);
  return new Promise((resolve) => {
    const timer = setTimeout(() => end('silent'), patienceMs);
    const end = (answer: Awaited<ReturnType<typeof ask>>): void => {
      clearTimeout(timer);
      socket.terminate();
      resolve(answer);
    };
    socket.once('open', () => socket.send(bytes));
    // An empty frame has the connection ended for good.
    socket.on('message', (data: Buffer) => data.length > 0 && end(data));
    socket.once('close', (code) => end(`closed ${code}`));
    socket.on('error', (error) => end(`refused: ${error.message}`));
  });
}

const connectOf = (name: string, password: string): Buffer =>
  generate({
    ...{ cmd: 'connect', protocolId: 'MQTT', protocolVersion: 4, clean: true, keepalive: 60 },
    ...{ clientId: name, username: name, password: Buffer.from(password) },
  });

export const directFloods: Attack[] = [
  {
    name: 'direct-wrong-passwords',
    title: "MQTT direct logins with the victim's name and wrong passwords, from many addresses",
    holds: 'refused; the device keeps its session (bystander)',
    run: async (target, { seconds, clients, seed }) => {
      const tally = new Tally();
      const random = new Random(seed);
      const name = `${target.victim.productKey}&${target.victim.deviceId}`;
      const digit = (): string => random.between(0, 35).toString(36);
      await inParallel(clients, endOf(seconds), async (number) => {
        const password = `tk_${Array.from({ length: 48 }, digit).join('')}`;
        const answer = await ask(target, number, connectOf(name, password));
        // CONNACK with its code in the fourth byte.
        const text = typeof answer === 'string' ? answer : `connack ${answer[3]}`;
        tally.note(text);
        if (text === 'connack 0') tally.problem('a wrong password is let in');
        if (text === 'silent') tally.problem(`a login is not answered for ${answerWithinMs / 1000} s`);
      });
      return tally.result();
    },
  },
  {
    name: 'direct-half-open',
    title: 'direct connections that send nothing, or half a CONNECT, from one address and from many',
    holds: 'refused beyond a cap, closed after a deadline',
    isOnce: true,
    run: async (target, { sockets }) => {
      const tally = new Tally();
      const half = connectOf('x', 'tk_x').subarray(0, 9);
      await times(sockets, sockets, async (number) => {
        const address = number % 4 < 2 ? oneAddress : addressOf(number);
        const bytes = number % 3 === 0 ? half : Buffer.alloc(0);
        const answer = await ask(target, number, bytes, { patienceMs: closedWithinMs, address });
        tally.note(typeof answer === 'string' ? answer : `packet ${answer[0]}`);
        if (answer === 'silent') tally.problem(`a connection without CONNECT is open after ${closedWithinMs / 1000} s`);
      });
      return tally.result();
    },
  },
];
