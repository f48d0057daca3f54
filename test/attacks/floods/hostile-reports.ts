// Messages of a signed-in device that are no reports, and one good report behind them. For the attack beside a bystander and
// for the long run.
import fc from 'fast-check';
import mqtt from 'mqtt';
import type { Activation } from '../../../rig/clients/accounts.ts';
import { hostileText, hostileValue } from '../../../rig/inputs/hostile-json.ts';
import type { Tally, Target } from '../rig/attack.ts';
import { generated, type Amount } from '../rig/hostile-sender.ts';
import { send } from '../rig/traffic.ts';

/** The broker takes so many a second of one device (`publishesPerSecond`): more need several devices. */
export async function sendHostileReports(
  { url, mqttUrl, own }: Pick<Target, 'url' | 'mqttUrl' | 'own'>,
  device: Activation,
  tally: Tally,
  { count, untilMs, seed }: Amount,
): Promise<void> {
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
  for (const batch of generated(message, count, untilMs, seed)) {
    const published = await Promise.allSettled(
      batch.map(([topic, bytes]) => client.publishAsync(topic, bytes.subarray(0, 16_384), { qos: 1 })),
    );
    for (const { status: outcome } of published) tally.note(outcome === 'fulfilled' ? 'acknowledged' : 'refused');
  }
  const headers = { Authorization: `Bearer ${own.token}` };
  const good = JSON.stringify({ method: 'thing.event.property.post', params: { position: 'down' } });
  const shownUntilMs = performance.now() + 60_000;
  let shown: unknown;
  do {
    await client.publishAsync(propertyPost, good, { qos: 1 });
    const answer = await send(`${url}/api/v1/devices/${device.deviceId}/status`, { headers });
    shown = (JSON.parse(answer.text) as { data: { position?: unknown } | null }).data?.position;
    if (shown !== 'down') await new Promise((resolve) => setTimeout(resolve, 250));
  } while (shown !== 'down' && performance.now() < shownUntilMs);
  if (shown !== 'down') tally.problem(`after them the status view shows position ${JSON.stringify(shown)}`);
  await client.endAsync(true);
}
