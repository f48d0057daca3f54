// The other side of an uplink comparison: an application that subscribes at the broker itself. It has a persistent session
// at QoS 1, and the library and window of the bridge. It writes nothing to a disk.
import { connectAsync } from 'mqtt';
import type { Socket } from 'node:net';
import { textOf } from './reports.ts';

export type Subscriber = { stop: () => Promise<void> };

export async function subscribePlainly(
  brokerUrl: string,
  filter: string,
  onText: (text: string) => void,
): Promise<Subscriber> {
  const client = await connectAsync(brokerUrl, {
    clientId: 'bench-plain-subscriber',
    protocolVersion: 5,
    clean: false,
    properties: { sessionExpiryInterval: 86_400, receiveMaximum: 500 },
    reconnectPeriod: 0,
  });
  (client.stream as unknown as Socket).setNoDelay(true);
  client.on('message', (topic, payload) => onText(textOf(topic, payload.toString())));
  await client.subscribeAsync(filter, { qos: 1 });
  return { stop: () => client.endAsync() };
}
