// Attacks on direct connections of devices, and on homes: logins with wrong passwords, and what the client of a home may not do.
// Connections without a login are in test/worker/direct/unproven-socket.test.ts.
import { WebSocket } from 'ws';
import { HomeClient } from '../../../rig/clients/home-client.ts';
import { refusalOf } from '../../../rig/clients/mqtt-client.ts';
import { connectBytesOf } from '../../../rig/clients/tcp-client.ts';
import { Random } from '../../../rig/inputs/random.ts';
import { Tally, type Attack, type Target } from '../rig/attack.ts';
import { besideHeavyWorkMs } from '../rig/judgement.ts';
import { addressOf, endOf, inParallel } from '../rig/traffic.ts';
import { sceneOf } from './lesser-rights.ts';

const answerWithinMs = 10_000;

/** What the connection at a path below `/mqtt` answers first to `bytes`: a packet, its end, or why it was not opened. */
function ask(
  { url }: Target,
  path: string,
  number: number,
  bytes: Buffer,
): Promise<Buffer | `closed ${number}` | `refused: ${string}` | 'silent'> {
  const headers = { 'CF-Connecting-IP': addressOf(number) };
  const options = { headers, perMessageDeflate: false };
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/mqtt/${path}`, 'mqtt', options);
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
        const answer = await ask(target, target.victim.deviceId, number, bytes);
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
    name: 'home-floods',
    title:
      'guessed API keys at a home; a home that asks for discovery and gives orders for foreign devices without end',
    holds: 'guesses are refused; a foreign device is neither shown nor moved (bystander)',
    // It makes an account.
    slowsToMs: besideHeavyWorkMs,
    run: async (target, { seconds, clients, seed }) => {
      const { tally, signUp, key, product, activate } = sceneOf(target);
      const until = endOf(seconds);
      const random = new Random(seed);
      const guess = (prefix: string, length: number): string =>
        prefix + Array.from({ length }, () => random.between(0, 35).toString(36)).join('');
      const owner = await signUp();
      const { deviceId } = await activate(owner, await product(owner));
      const { headers } = await key(owner, { scopes: ['read', 'control'] });
      const login = { keyId: headers['X-API-Key'] ?? '', apiKey: headers['X-API-Secret'] ?? '' };
      const homeUrl = `${target.url.replace(/^http/, 'ws')}/mqtt/home`;
      const guessing = inParallel(clients, until, async (number) => {
        const bytes = connectBytesOf({ clientId: 'home', username: guess('ak_', 20), password: guess('sk_', 40) });
        const answer = await ask(target, 'home', number, bytes);
        const text = typeof answer === 'string' ? answer : `connack ${answer[3]}`;
        tally.note(text);
        if (text === 'connack 0') tally.problem('a guessed key is let in');
      });
      const home = await HomeClient.open(homeUrl, login, { protocolVersion: 5, clientId: 'asking' });
      await home.follow();
      await home.until('the own device', () => home.last(deviceId, 'config') !== undefined);
      for (const filter of ['#', `/sys/${target.victim.productKey}/#`, '$SYS/#']) {
        if (await home.mqtt.trySubscribe(filter)) tally.problem(`${filter} is granted`);
      }
      const names = { username: login.keyId, password: login.apiKey, protocolVersion: 5 as const };
      const will = { topic: `latchwork/${deviceId}/set`, payload: Buffer.from('up'), qos: 0 as const, retain: false };
      if ((await refusalOf(homeUrl, { ...names, will })) === 'accepted') tally.problem('a will is accepted');
      const retaining = await HomeClient.open(homeUrl, login, { protocolVersion: 5, clientId: 'retaining' });
      const retained = retaining.mqtt.client.publishAsync(`latchwork/${deviceId}/set`, 'up', { qos: 1, retain: true });
      await Promise.race([Promise.allSettled([retained]), retaining.mqtt.untilClosed()]);
      if (!retaining.mqtt.isClosed) tally.problem('a retained order is accepted');
      while (performance.now() < until && !home.mqtt.isClosed) {
        const orders = ['up', 'down'].map((payload) => home.order(target.victim.deviceId, 'set', payload));
        const [answer] = await Promise.allSettled(orders);
        const text = answer?.status === 'rejected' ? `puback ${(answer.reason as { code?: number }).code}` : 'accepted';
        tally.note(text);
        if (text === 'accepted') tally.problem('an order for a foreign device is accepted');
        await home.follow();
      }
      if (home.mqtt.heard.some(({ topic }) => topic.includes(target.victim.deviceId))) tally.problem('it is shown');
      await Promise.all([guessing, home.leave()]);
      return tally.result();
    },
  },
];
