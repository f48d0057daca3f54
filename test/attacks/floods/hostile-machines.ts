// Requests to the brokers' hooks and the bridge's routes by somebody who lacks their secrets. For the attack beside a bystander
// and for the long run.
import fc from 'fast-check';
import { hostileText, hostileValue } from '../../../rig/inputs/hostile-json.ts';
import type { Tally, Target } from '../rig/attack.ts';
import { generated, type Amount } from '../rig/hostile-sender.ts';
import { addressOf, nameOfError, send, times } from '../rig/traffic.ts';

export async function sendHostileMachineRequests(
  { url }: Pick<Target, 'url'>,
  tally: Tally,
  { count, untilMs, clients, seed }: Amount & { clients: number },
): Promise<void> {
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
  for (const batch of generated(bad, count, untilMs, seed)) {
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
}
