// An attack on the relay: too many frames. Giant frames and readers that read nothing are in test/attacks/relay-floods.test.ts,
// frames that are none in test/fuzz/messages.test.ts, sockets that say nothing in worker/relay/relay-limits.test.ts.
import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { Tally, type Attack } from '../rig/attack.ts';
import { addressOf, endOf } from '../rig/traffic.ts';

const relayUrl = (url: string): string => `${url.replace(/^http/, 'ws')}/mqtt`;

/** Resolves when it is open, or with the reason why it is not. */
function open(url: string, address: string): Promise<{ socket: WebSocket; refused: string | undefined }> {
  const socket = new WebSocket(relayUrl(url), { headers: { 'CF-Connecting-IP': address }, perMessageDeflate: false });
  return new Promise((resolve) => {
    socket.once('open', () => resolve({ socket, refused: undefined }));
    socket.on('error', (error) => resolve({ socket, refused: error.message }));
  });
}

const closedOf = (socket: WebSocket): Promise<number> =>
  new Promise((resolve) => {
    if (socket.readyState === WebSocket.CLOSED) resolve(1006);
    else socket.once('close', (code) => resolve(code));
  });

export const relayFloods: Attack[] = [
  {
    name: 'frame-flood',
    title: 'signed-in sockets that send pings and ask for snapshots as fast as the connection takes them',
    holds: 'closed or held to a rate',
    run: async ({ url, own }, { seconds }) => {
      const tally = new Tally();
      const untilMs = endOf(seconds);
      const framesAtOnce = 200;
      const attempt = async (number: number): Promise<void> => {
        while (performance.now() < untilMs) {
          const { socket, refused } = await open(url, addressOf(number));
          if (refused !== undefined) {
            tally.note(refused);
            await sleep(100);
            continue;
          }
          let answered = 0;
          socket.on('message', () => (answered += 1));
          socket.send(JSON.stringify({ action: 'auth', token: own.token }));
          let sent = 1;
          // The platform answers the exact spelling itself; every other one comes to the shard.
          const snapshot = { action: 'subscribe', topic: `/sys/${own.productKey}/+/#`, snapshot: true };
          const frame = ['{"action":"ping"}', '{"action": "ping"}', JSON.stringify(snapshot)][number % 3]!;
          const mayGoOn = (): boolean => socket.readyState === WebSocket.OPEN && performance.now() < untilMs;
          while (mayGoOn()) {
            for (let count = 0; count < framesAtOnce; count += 1) socket.send(frame);
            sent += framesAtOnce;
            const enough = sent - 2 * framesAtOnce;
            while (answered < enough && mayGoOn()) await sleep(1);
          }
          tally.tried += sent;
          if (performance.now() < untilMs) tally.note(`closed ${await closedOf(socket)}`);
          socket.terminate();
        }
      };
      await Promise.all(Array.from({ length: 8 }, (_, number) => attempt(number)));
      return tally.result();
    },
  },
];
