// Attacks on the relay: sockets that say nothing, too many frames, a reader that reads nothing, frames that are none.
import fc from 'fast-check';
import { setTimeout as sleep } from 'node:timers/promises';
import mqtt from 'mqtt';
import { WebSocket } from 'ws';
import { hostileText, hostileValue } from '../../../rig/inputs/hostile-json.ts';
import { Tally, type Attack } from '../rig/attack.ts';
import { openByHand, textFrame } from '../rig/raw-socket.ts';
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

/** The service closes them after 10 to 30 s. */
const closedWithinS = 45;

async function muteSockets(url: string, sockets: number, addressFor: (number: number) => string): Promise<Tally> {
  const tally = new Tally();
  const opened: WebSocket[] = [];
  const tenAtOnce = 10;
  for (let at = 0; at < sockets; at += tenAtOnce) {
    const some = await Promise.all(
      Array.from({ length: Math.min(tenAtOnce, sockets - at) }, (_, index) => open(url, addressFor(at + index))),
    );
    for (const { socket, refused } of some) {
      tally.note(refused ?? 'opened');
      if (refused === undefined) opened.push(socket);
    }
  }
  // Nobody may stay for ever without saying who he is.
  const closed = await Promise.race([Promise.all(opened.map(closedOf)), sleep(closedWithinS * 1_000)]);
  if (closed === undefined) {
    const open = opened.filter(({ readyState }) => readyState === WebSocket.OPEN).length;
    tally.problem(
      `${open} of ${opened.length} sockets are open ${closedWithinS} s after they were opened and said nothing`,
    );
  } else for (const code of closed) tally.note(`closed ${code}`);
  for (const socket of opened) socket.terminate();
  return tally;
}

export const relayFloods: Attack[] = [
  {
    name: 'mute-sockets',
    title: 'relay sockets of one address that never authenticate',
    holds: 'refused beyond a cap, closed after a deadline',
    isOnce: true,
    run: async ({ url }, { sockets }) => {
      const tally = await muteSockets(url, sockets, () => '192.0.2.77');
      if (sockets >= 500 && tally.of('opened') >= sockets) tally.problem(`one address holds all ${sockets} sockets`);
      return tally.result();
    },
  },
  {
    name: 'mute-sockets-spread',
    title: 'the same from as many addresses',
    holds: 'refused beyond a cap a shard, closed after a deadline',
    isOnce: true,
    run: async ({ url }, { sockets }) => (await muteSockets(url, sockets, addressOf)).result(),
  },
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
  {
    name: 'slow-reader',
    title: 'a subscriber that reads nothing while its device sends 15 KB reports',
    holds: 'closed; what waits for it is bounded',
    run: async ({ url, mqttUrl, own }, { seconds }) => {
      const tally = new Tally();
      const device = own.devices[2];
      if (device === undefined) throw new Error('the attacker has no device');
      const reader = await openByHand(url, { 'CF-Connecting-IP': '192.0.2.88' });
      const auth = JSON.stringify({ action: 'auth', token: own.token });
      const subscribe = JSON.stringify({ action: 'subscribe', topic: device.topics.status.replace(/status$/, '#') });
      reader.write(Buffer.concat([textFrame(auth), textFrame(subscribe)]));
      await sleep(1_000);
      reader.pause();
      const { username, password, clientId } = device.mqtt;
      const client = await mqtt.connectAsync(mqttUrl, { username, password, clientId, reconnectPeriod: 100 });
      const payload = JSON.stringify({ params: { position: 'up' }, padding: 'x'.repeat(15_000) });
      const untilMs = endOf(seconds);
      while (performance.now() < untilMs) {
        const some = Array.from({ length: 20 }, () =>
          client.publishAsync(device.topics.propertyPost, payload, { qos: 1 }),
        );
        for (const { status } of await Promise.allSettled(some)) tally.note(status);
      }
      await client.endAsync(true);
      reader.destroy();
      return tally.result();
    },
  },
  {
    name: 'giant-frames',
    title: 'sockets that send a frame of 30 MiB before they authenticate, from a few addresses, again and again',
    holds: 'closed with 1009, the address is shut out; a small frame from elsewhere is answered',
    isOnce: true,
    run: async ({ url }, { clients }) => {
      const tally = new Tally();
      const frame = 'x'.repeat(30 * 2 ** 20);
      for (let number = 0; number < clients; number += 1) {
        const address = `192.0.2.${150 + (number >> 1)}`;
        const { socket, refused } = await open(url, address);
        if (refused !== undefined) tally.note(refused);
        else {
          socket.send(frame);
          const code = await Promise.race([closedOf(socket), sleep(30_000, 'silent')]);
          tally.note(`closed ${code}`);
          if (code === 'silent') tally.problem('a giant frame closes nothing');
          if (number % 2 === 1) tally.problem(`${address} came again after a giant frame`);
        }
        socket.terminate();
      }
      return tally.result();
    },
  },
  {
    name: 'hostile-frames',
    title: 'relay frames that are nearly right, wrong and hostile, text and binary',
    holds: 'each is answered or ends the socket; none answers internal_error',
    run: async ({ url, own }, { inputs, inputSeconds, seed }) => {
      const tally = new Tally();
      const untilMs = endOf(inputSeconds);
      const actions = ['auth', 'subscribe', 'unsubscribe', 'publish', 'ping', 'x', ''];
      const frame = fc.oneof(
        fc
          .record({
            action: fc.constantFrom(...actions),
            topic: hostileText,
            payload: hostileValue,
            token: hostileText,
          })
          .map((value) => JSON.stringify(value)),
        hostileText,
        hostileValue.map((value) => JSON.stringify(value)),
        fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
      );
      const perSocket = 20;
      const count = Math.ceil(inputs / 20);
      for (let at = 0; at < count && performance.now() < untilMs; at += perSocket) {
        const frames = fc.sample(frame, { numRuns: Math.min(perSocket, count - at), seed: (seed + at) | 0 });
        const { socket, refused } = await open(url, addressOf(at));
        if (refused !== undefined) {
          tally.note(refused);
          continue;
        }
        socket.on('message', (data) => {
          const text = (data as Buffer).toString();
          if (text.includes('internal_error')) tally.problem(`a frame answers ${text}`);
          tally.note('answered');
        });
        if ((at / perSocket) % 2 === 0) socket.send(JSON.stringify({ action: 'auth', token: own.token }));
        for (const frame of frames) socket.send(frame);
        socket.send('{"action":"ping"}');
        const code = await Promise.race([closedOf(socket), untilPong(socket), sleep(10_000).then(() => 'silent')]);
        if (code === 'silent') tally.problem('a socket answers nothing for 10 s');
        tally.note(typeof code === 'number' ? `closed ${code}` : code);
        socket.terminate();
      }
      return tally.result();
    },
  },
];

function untilPong(socket: WebSocket): Promise<'pong'> {
  return new Promise((resolve) => {
    socket.on('message', (data) => {
      if ((data as Buffer).toString().includes('pong')) resolve('pong');
    });
  });
}
