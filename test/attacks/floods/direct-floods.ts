// An attack on devices' own direct connections, by strangers: logins with wrong passwords. Connections without a login are in
// test/worker/direct/unproven-socket.test.ts.
import { WebSocket } from 'ws';
import { connectBytesOf } from '../../../rig/clients/tcp-client.ts';
import { Random } from '../../../rig/inputs/random.ts';
import { Tally, type Attack, type Target } from '../rig/attack.ts';
import { addressOf, endOf, inParallel } from '../rig/traffic.ts';

const answerWithinMs = 10_000;

/** What a direct connection answers first to `bytes`: a packet, its end, or why it was not opened. */
function ask(
  { url, victim }: Target,
  number: number,
  bytes: Buffer,
): Promise<Buffer | `closed ${number}` | `refused: ${string}` | 'silent'> {
  const headers = { 'CF-Connecting-IP': addressOf(number) };
  const options = { headers, perMessageDeflate: false };
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/mqtt/${victim.deviceId}`, 'mqtt', options);
  return new Promise((resolve) => {
    const timer = setTimeout(() => end('silent'), answerWithinMs);
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
        const bytes = connectBytesOf({ clientId: name, username: name, password });
        const answer = await ask(target, number, bytes);
        // CONNACK with its code in the fourth byte.
        const text = typeof answer === 'string' ? answer : `connack ${answer[3]}`;
        tally.note(text);
        if (text === 'connack 0') tally.problem('a wrong password is let in');
        if (text === 'silent') tally.problem(`a login is not answered for ${answerWithinMs / 1000} s`);
      });
      return tally.result();
    },
  },
];
