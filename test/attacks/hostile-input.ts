// Generated input from outside: every field of every route of the reference, the hooks and the bridge's routes without
// their secrets, and messages of a signed-in device. Counted; the seed makes the same input again.
import fc from 'fast-check';
import mqtt from 'mqtt';
import { hostileText, hostileValue } from '../rig/hostile-json.ts';
import { Tally, type Attack } from './attack.ts';
import { generated, HostileSender } from './hostile-sender.ts';
import { addressOf, endOf, nameOfError, send, times } from './traffic.ts';

export const hostileInput: Attack[] = [
  {
    name: 'hostile-requests',
    title: 'nearly right, wrong and hostile requests over every route, generated from the reference',
    holds: 'no 5xx, always the envelope, nothing that the reference does not say',
    run: async (target, { inputs, inputSeconds, clients, seed }) => {
      const tally = new Tally();
      const sender = await HostileSender.prepare(target, tally);
      for (const batch of generated(sender.arbitrary, inputs, endOf(inputSeconds), seed)) {
        await times(clients, batch.length, async (index) => {
          const input = batch[index];
          if (input !== undefined) await sender.send(input);
        });
      }
      await sender.end();
      return tally.result();
    },
  },
  {
    name: 'hostile-machines',
    title: "the brokers' hooks and the bridge's routes with spoiled secrets and hostile bodies",
    holds: 'refused before anything is read',
    run: async ({ url }, { inputs, inputSeconds, clients, seed }) => {
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
      for (const batch of generated(bad, Math.ceil(inputs / 10), endOf(inputSeconds), seed)) {
        await times(clients, batch.length, async (index) => {
          const { path = '', secret = '', body = '' } = batch[index] ?? {};
          const headers = { Authorization: `Bearer ${secret.replaceAll(/[^\x21-\x7e]/g, '').slice(0, 200)}` };
          const request = { method: 'POST', headers, body, address: addressOf(index) };
          try {
            const { status, text } = await send(`${url}${path}`, request);
            tally.note(status);
            // RabbitMQ reads the word and no status: a refusal is 200 "deny" there only with the right secret.
            if (![401, 403, 404, 429].includes(status)) tally.problem(`${path}: ${status} ${text.slice(0, 100)}`);
          } catch (error) {
            // Refused and cut before it was read.
            tally.note(nameOfError(error));
            if (nameOfError(error) !== 'ECONNRESET') tally.problem(`${path}: ${nameOfError(error)}`);
          }
        });
      }
      return tally.result();
    },
  },
  {
    name: 'hostile-reports',
    title: 'messages of a signed-in device: no JSON, deep nesting, thousands of members, 16 KiB, no UTF-8',
    holds: "none is taken for a report; the device's next good report is shown",
    run: async ({ url, mqttUrl, own }, { inputs, inputSeconds, seed }) => {
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
      for (const batch of generated(message, Math.ceil(inputs / 20), endOf(inputSeconds), seed)) {
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
