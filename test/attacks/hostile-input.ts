// Generated input from outside: every field of every route of the reference, the hooks and the bridge's routes without
// their secrets, and messages of a signed-in device. Counted; the seed makes the same input again.
import fc from 'fast-check';
import mqtt from 'mqtt';
import { HostileRequests } from '../rig/hostile-requests.ts';
import { hostileText, hostileValue } from '../rig/hostile-json.ts';
import type { OpenApiDocument } from '../rig/openapi-document.ts';
import { Tally, type Attack } from './attack.ts';
import { addressOf, nameOfError, send, times } from './traffic.ts';

/** Made at once: generating one by one is slower than sending. */
const chunk = 500;
/** What costs a hundred milliseconds of hashing: with a body that may be right it is sent this often, the rest by floods. */
const costly = ['POST /api/v1/users/register', 'POST /api/v1/users/login', 'PUT /api/v1/users/password'];
const maxCostly = 200;

/** `count` values, a chunk at a time, each chunk from a seed of its own. */
function* generated<T>(arbitrary: fc.Arbitrary<T>, count: number, seed: number): Generator<T[]> {
  for (let made = 0; made < count; made += chunk) {
    yield fc.sample(arbitrary, { numRuns: Math.min(chunk, count - made), seed: (seed + made) | 0 });
  }
}

export const hostileInput: Attack[] = [
  {
    name: 'hostile-requests',
    title: 'nearly right, wrong and hostile requests over every route, generated from the reference',
    holds: 'no 5xx, always the envelope, nothing that the reference does not say',
    run: async ({ url, own }, { inputs, clients, seed }) => {
      const tally = new Tally();
      const document = JSON.parse((await send(`${url}/api/v1/openapi.json`)).text) as OpenApiDocument;
      const requests = new HostileRequests(document);
      const objects = { productKey: own.productKey, deviceId: own.devices[0]?.deviceId ?? '', keyId: 'ak_x' };
      const token = { Authorization: `Bearer ${own.token}` };
      const credentials: Record<string, string>[] = [token, token, token, {}, { Authorization: 'Bearer x.y.z' }];
      const arbitrary = requests.arbitrary(objects, credentials.length);
      let address = 0;
      let costlyCount = 0;
      for (const batch of generated(arbitrary, inputs, seed)) {
        await times(clients, batch.length, async (index) => {
          const input = batch[index];
          // A client of this library cannot announce another length than it sends: raw bytes try that.
          if (input === undefined) return;
          if (costly.includes(input.operation) && requests.isBodyValid(input)) {
            costlyCount += 1;
            if (costlyCount > maxCostly) return;
          }
          const headers = Object.entries(input.headers).filter(([name]) => name !== 'Content-Length');
          const [method = ''] = input.operation.split(' ');
          const what = () => `${input.operation} ${input.url.slice(0, 120)} ${input.body?.slice(0, 160) ?? ''}`;
          try {
            const answer = await send(`${url}${input.url}`, {
              method,
              address: addressOf(address++),
              headers: { ...credentials[input.credential], ...Object.fromEntries(headers) },
              body: input.body,
            });
            tally.note(answer.status);
            // Beyond its limit every route may say so.
            const problem = answer.status === 429 ? undefined : requests.problemOf(input, answer);
            if (problem !== undefined) tally.problem(`${what()}: ${problem}`);
          } catch (error) {
            tally.note(nameOfError(error));
            // What cannot be written as a header or a path was never sent.
            const isUnsendable = error instanceof TypeError;
            if (!isUnsendable) tally.problem(`${what()}: ${nameOfError(error)}`);
          }
        });
      }
      return tally.result();
    },
  },
  {
    name: 'hostile-machines',
    title: "the brokers' hooks and the bridge's routes with spoiled secrets and hostile bodies",
    holds: 'refused before anything is read',
    run: async ({ url }, { inputs, clients, seed }) => {
      const tally = new Tally();
      const paths = [
        '/bridge/uplink',
        '/hooks/emqx/connect',
        '/hooks/emqx/events',
        '/hooks/rabbitmq/user',
        '/hooks/mosquitto-go-auth/user',
        '/hooks/vernemq/auth_on_register',
        '/hooks/vernemq/s/wrong/auth_on_register',
        '/hooks/rabbitmq/s/%00/user',
      ];
      const bad = fc.record({
        path: fc.constantFrom(...paths),
        secret: fc.oneof(hostileText, fc.constantFrom('', 'Bearer', 'null')),
        body: fc.oneof(
          hostileValue.map((value) => JSON.stringify(value)),
          hostileText,
        ),
      });
      for (const batch of generated(bad, Math.ceil(inputs / 10), seed)) {
        await times(clients, batch.length, async (index) => {
          const { path = '', secret = '', body = '' } = batch[index] ?? {};
          const headers = { Authorization: `Bearer ${secret.replaceAll(/[^\x21-\x7e]/g, '').slice(0, 200)}` };
          const { status, text } = await send(`${url}${path}`, {
            method: 'POST',
            headers,
            body,
            address: addressOf(index),
          });
          tally.note(status);
          // RabbitMQ reads the word and no status: a refusal is 200 "deny" there only with the right secret.
          if (![401, 403, 404, 429].includes(status)) tally.problem(`${path}: ${status} ${text.slice(0, 100)}`);
        });
      }
      return tally.result();
    },
  },
  {
    name: 'hostile-reports',
    title: 'messages of a signed-in device: no JSON, deep nesting, thousands of members, 16 KiB, no UTF-8',
    holds: "none is taken for a report; the device's next good report is shown",
    run: async ({ url, mqttUrl, own }, { inputs, seed }) => {
      const tally = new Tally();
      const device = own.devices[1];
      if (device === undefined) throw new Error('the attacker has no device');
      const { username, password, clientId } = device.mqtt;
      const client = await mqtt.connectAsync(mqttUrl, { username, password, clientId, reconnectPeriod: 100 });
      const { propertyPost, propertySet, status } = device.topics;
      const members = (count: number) =>
        JSON.stringify({ params: Object.fromEntries(Array.from({ length: count }, (_, at) => [`m${at}`, at])) });
      const crafted = [
        '['.repeat(8_000),
        `${'['.repeat(7_000)}${']'.repeat(7_000)}`,
        `{"method":"thing.event.property.post","params":${'{"a":'.repeat(2_500)}1${'}'.repeat(2_501)}`,
        members(1_000),
        '{"params":{"__proto__":{"position":"up"},"constructor":{"prototype":1}}}',
        `{"params":{"position":"${'u'.repeat(15_000)}"}}`,
        '\ufeff{}',
        '{"id":1e999}',
      ];
      const payload = fc.oneof(
        { weight: 2, arbitrary: fc.constantFrom(...crafted).map((text) => Buffer.from(text)) },
        { weight: 4, arbitrary: hostileValue.map((params) => Buffer.from(JSON.stringify({ params }))) },
        { weight: 2, arbitrary: hostileText.map((text) => Buffer.from(text)) },
        { weight: 2, arbitrary: fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)) },
      );
      const message = fc.tuple(fc.constantFrom(propertyPost, `${propertySet}_reply`, status), payload);
      for (const batch of generated(message, Math.ceil(inputs / 20), seed)) {
        const published = await Promise.allSettled(
          batch.map(([topic, bytes]) => client.publishAsync(topic, bytes.subarray(0, 16_384), { qos: 1 })),
        );
        for (const { status: outcome } of published) tally.note(outcome === 'fulfilled' ? 'acknowledged' : 'refused');
      }
      const headers = { Authorization: `Bearer ${own.token}` };
      const good = JSON.stringify({ method: 'thing.event.property.post', params: { position: 'down' } });
      const untilMs = performance.now() + 60_000;
      let shown: unknown;
      do {
        await client.publishAsync(propertyPost, good, { qos: 1 });
        const answer = await send(`${url}/api/v1/devices/${device.deviceId}/status`, { headers });
        shown = (JSON.parse(answer.text) as { data: { position?: unknown } | null }).data?.position;
        if (shown !== 'down') await new Promise((resolve) => setTimeout(resolve, 250));
      } while (shown !== 'down' && performance.now() < untilMs);
      if (shown !== 'down') tally.problem(`after them the status view shows position ${JSON.stringify(shown)}`);
      await client.endAsync(true);
      return tally.result();
    },
  },
];
