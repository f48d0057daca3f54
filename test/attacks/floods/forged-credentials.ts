// Tokens and keys that were never issued, over every route of the reference and at the relay. Also another user's real
// account over the victim's objects. Nothing may be answered with a success or a 5xx.
import { createHmac, randomBytes } from 'node:crypto';
import { nameOf } from '../../../rig/inputs/hostile-requests.ts';
import {
  exampleBody,
  listOperations,
  type OpenApiDocument,
  type Operation,
} from '../../../rig/inputs/openapi-document.ts';
import { WebSocket } from 'ws';
import { Tally, type Attack, type Target } from '../rig/attack.ts';
import { addressOf, endOf, inParallel, send, times } from '../rig/traffic.ts';

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

/** A signed token with any header and claims. */
function forge(header: object, claims: object, key = 'a-secret-that-is-none-of-the-service'): string {
  const content = `${encode(header)}.${encode(claims)}`;
  return `${content}.${createHmac('sha256', key).update(content).digest('base64url')}`;
}

function forgedTokens({ own }: Target): string[] {
  const [header = '', claims = '', signature = ''] = own.token.split('.');
  const mine = JSON.parse(Buffer.from(claims, 'base64url').toString()) as Record<string, unknown>;
  const other = { ...mine, sub: '1', userId: 1, uid: 1 };
  const hs256 = { alg: 'HS256', typ: 'JWT' };
  const flipped = signature.replace(/^./, (first) => (first === 'A' ? 'B' : 'A'));
  return [
    `${encode({ alg: 'none' })}.${encode(other)}.`,
    `${encode({ alg: 'None', kid: 'rig' })}.${claims}.`,
    `${header}.${encode(other)}.${signature}`,
    `${header}.${claims}.${flipped}`,
    `${header}.${claims}.`,
    `${header}.${claims}`,
    `${header}..${signature}`,
    forge(hs256, other),
    forge({ ...hs256, kid: 'rig' }, other),
    forge({ ...hs256, kid: '../../../../dev/null' }, other, ''),
    forge({ ...hs256, kid: "rig' OR '1'='1" }, other),
    forge({ ...hs256, jwk: { kty: 'oct', k: 'AA' }, jku: 'https://elsewhere.test/jwks.json' }, other),
    forge({ alg: 'HS512', kid: 'rig' }, other),
    forge({ alg: 'RS256', kid: 'rig' }, other),
    forge({ ...hs256, crit: ['exp'] }, { ...other, exp: 1e308 }),
    forge(hs256, { ...other, exp: 'never', nbf: null }),
    encode(mine),
    'undefined',
    'a.b.c',
    `${'A'.repeat(4_000)}.${'A'.repeat(4_000)}.A`,
    randomBytes(60).toString('base64'),
  ];
}

const pairs = (): Record<string, string>[] => [
  { 'X-API-Key': 'ak_00000000000000000000', 'X-API-Secret': `sk_${'0'.repeat(40)}` },
  { 'X-API-Key': 'ak_00000000000000000000' },
  { 'X-API-Key': "ak_' OR 1=1 --", 'X-API-Secret': 'sk_' },
  { 'X-API-Key': 'constructor', 'X-API-Secret': 'toString' },
];

async function readReference(url: string): Promise<{ document: OpenApiDocument; operations: Operation[] }> {
  const document = JSON.parse((await send(`${url}/api/v1/openapi.json`)).text) as OpenApiDocument;
  return { document, operations: listOperations(document) };
}

const isSigned = ({ security }: Operation): boolean =>
  (security ?? []).length > 0 && !(security ?? []).some((requirement) => Object.keys(requirement).length === 0);

function pathFor(path: string, objects: Record<string, string>): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(objects[name] ?? 'x'));
}

/** A relay socket answers three wrong ones before it is closed. */
const framesOfSocket = 3;
const relayPatienceMs = 20_000;

/** What the relay answers to these frames, until it closes. */
function askRelay(url: string, address: string, frames: object[]): Promise<string[]> {
  const headers = { 'CF-Connecting-IP': address };
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/mqtt`, { headers, perMessageDeflate: false });
  const answers: string[] = [];
  return new Promise((resolve) => {
    const timer = setTimeout(() => end('silent'), relayPatienceMs);
    const end = (how: string): void => {
      clearTimeout(timer);
      socket.terminate();
      resolve([...answers, how]);
    };
    socket.once('open', () => {
      for (const frame of frames) socket.send(JSON.stringify(frame));
    });
    socket.on('message', (data: Buffer) => answers.push(data.toString()));
    socket.once('close', (code) => end(`closed ${code}`));
    socket.on('error', (error) => end(error.message));
  });
}

export const forgedCredentials: Attack[] = [
  {
    name: 'forged-credentials',
    title: 'forged and spoiled tokens and key pairs over every route that asks for one',
    holds: '401 everywhere',
    isOnce: true,
    run: async (target, { seconds, clients }) => {
      const tally = new Tally();
      const { document, operations } = await readReference(target.url);
      const signed = operations.filter(isSigned);
      if (signed.length < 15) tally.problem(`the reference has ${signed.length} routes that ask for a credential`);
      // The service paces refusals: in a moment each route is tried with some of them, in turn.
      const every = seconds < 1 ? 4 : 1;
      const untilMs = endOf(seconds);
      do {
        const headers = [...forgedTokens(target).map((token) => ({ Authorization: `Bearer ${token}` })), ...pairs()];
        const all = signed.flatMap((operation, index) =>
          headers.filter((_, at) => (at + index) % every === 0).map((credentials) => ({ operation, credentials })),
        );
        await times(clients, all.length, async (number) => {
          const { operation, credentials } = all[number]!;
          const { deviceId, productKey } = target.victim;
          const path = pathFor(operation.path, { deviceId, productKey, keyId: 'ak_00000000000000000000' });
          const body = operation.method === 'GET' ? undefined : JSON.stringify(exampleBody(document, operation) ?? {});
          const request = { method: operation.method, headers: credentials, body, address: addressOf(number) };
          const { status } = await send(`${target.url}${path}`, request);
          tally.note(status);
          if (status !== 401 && status !== 429) {
            tally.problem(`${nameOf(operation)} answers ${status} to ${JSON.stringify(credentials)}`);
          }
        });
      } while (performance.now() < untilMs);
      return tally.result();
    },
  },
  {
    name: 'forged-frames',
    title:
      'forged tokens, key pairs and device passwords in frames of the relay, and topics asked for without a sign-in',
    holds: 'refused, and the socket is closed after three',
    run: async (target, { seconds, clients }) => {
      const tally = new Tally();
      const { url, victim, own } = target;
      const username = `${victim.productKey}&${victim.deviceId}`;
      const subscribe = { action: 'subscribe', topic: `/sys/${victim.productKey}/${victim.deviceId}/#` };
      const foreign = own.devices[0]?.mqtt.password ?? '';
      const auths = [
        ...forgedTokens(target).map((token) => ({ token })),
        ...pairs().map((pair) => ({ apiKey: pair['X-API-Key'], apiSecret: pair['X-API-Secret'] ?? '' })),
        ...['', 'tk_', `tk_${'0'.repeat(48)}`, foreign].map((password) => ({ username, password })),
      ].map((auth) => ({ action: 'auth', ...auth }));
      await inParallel(clients, endOf(seconds), async (number) => {
        const some = Array.from(
          { length: framesOfSocket },
          (_, at) => auths[(number * framesOfSocket + at) % auths.length]!,
        );
        const answers = await askRelay(url, addressOf(number), [subscribe, ...some]);
        for (const answer of answers) {
          tally.note(/"code":(\d+)/.exec(answer)?.[1] ?? answer);
          if (answer.includes('"code":200') || answer.includes('internal_error') || answer.includes('"payload"')) {
            tally.problem(`${JSON.stringify(some)} is answered ${answer}`);
          }
        }
        if (answers.at(-1) === 'silent') tally.problem(`a socket stays open after ${JSON.stringify(some)}`);
      });
      return tally.result();
    },
  },
  {
    name: 'foreign-objects',
    title: "a signed-in stranger over every route with the victim's ids",
    holds: '403 or 404 everywhere; nothing changes',
    run: async ({ url, victim, own }, { seconds }) => {
      const tally = new Tally();
      const { document, operations } = await readReference(url);
      const withObjects = operations.filter(
        (operation) => isSigned(operation) && /\{(deviceId|productKey)\}/.test(operation.path),
      );
      const untilMs = endOf(seconds);
      let number = 0;
      do {
        for (const operation of withObjects) {
          const path = pathFor(operation.path, { ...victim, keyId: 'ak_x', commandId: 'abcdefghijklmnop' });
          const body = operation.method === 'GET' ? undefined : JSON.stringify(exampleBody(document, operation) ?? {});
          const headers = { Authorization: `Bearer ${own.token}` };
          const request = { method: operation.method, headers, body, address: addressOf(number++) };
          const { status, text } = await send(`${url}${path}`, request);
          tally.note(status);
          const isRefused =
            status === 403 || status === 404 || status === 429 || (status === 400 && body !== undefined);
          if (!isRefused) tally.problem(`${nameOf(operation)} answers ${status} ${text.slice(0, 200)}`);
        }
      } while (performance.now() < untilMs);
      return tally.result();
    },
  },
];
