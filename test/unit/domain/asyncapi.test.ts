// The AsyncAPI document: true to the schemas and rules that messages meet. The conformance tests show that it is valid.
import { expect, it } from 'vitest';
import { parseControl } from '../../../src/domain/control-command.ts';
import { readMessage } from '../../../src/domain/device/messages/messages.ts';
import { parseTopic } from '../../../src/domain/topics.ts';
import { describeMessaging } from '../../../dev/reference/asyncapi.ts';
import { propertySetSchema, type TopicAction } from '../../../src/protocol/mqtt.ts';
import { relayRequestSchema } from '../../../src/protocol/relay.ts';
import { createSchemaCheck } from '../../../rig/inputs/json-schema.ts';

const broker = { host: 'broker.test', port: 1883, tlsPort: 8883 };
const document = describeMessaging('0.3.0', broker);
const { channels, operations, components } = document;
const messages = Object.values(components.messages);

function examplesOf(name: string): unknown[] {
  return components.messages[name]!.examples.map(({ payload }) => payload);
}

it('names the device topics, in both directions, and the relay', () => {
  const sample = { '{productKey}': 'servo-switch', '{deviceId}': 'dev_8k2m4n6p' };
  const actions = Object.values(channels).flatMap(({ address }) => {
    const topic = Object.entries(sample).reduce((text, [name, value]) => text.replace(name, value), address);
    return parseTopic(topic)?.action ?? [];
  });
  expect(actions).toEqual([
    'thing/event/property/post',
    'thing/service/property/set',
    'thing/service/property/set_reply',
    'status',
    'thing/ota/inform',
    'thing/ota/upgrade',
    'thing/ota/progress',
    'thing/ota/get',
    'thing/ota/data',
  ]);
  expect(channels.relay.address).toBe('/mqtt');
});

it('uses every message in some operation', () => {
  const used = JSON.stringify(operations);
  const unused = Object.keys(components.messages).filter((name) => !used.includes(`/messages/${name}"`));
  expect(unused).toEqual([]);
});

it('tells where the broker of this deployment is', () => {
  expect(document.servers.broker).toMatchObject({
    host: '{host}:1883',
    variables: { host: { default: 'broker.test' } },
  });
  expect(document.servers.brokerTls.host).toBe('{host}:8883');
  expect(describeMessaging('0.3.0', { ...broker, host: '' }).servers.broker.variables.host.default).toBe(
    'broker.example.com',
  );
});

it('gives examples of every message, and each is one', () => {
  const check = createSchemaCheck(document, { isClosed: false });
  for (const { name, payload, examples } of messages) {
    expect(examples.length, name).toBeGreaterThan(0);
    for (const example of examples) expect(check(payload, example.payload), name).toEqual([]);
  }
});

it('gives examples that the service itself understands as what they are', () => {
  const kindOf = (action: TopicAction, body: unknown) => readMessage(action, JSON.stringify(body)).kind;
  for (const report of examplesOf('PropertyReport')) {
    expect(kindOf('thing/event/property/post', report)).toBe('report');
  }
  for (const answer of examplesOf('CommandReply')) {
    expect(kindOf('thing/event/property/post', answer)).toBe('reply');
  }
  for (const status of examplesOf('Status')) expect(kindOf('status', status)).toBe('status');
  for (const name of ['inform', 'progress', 'get'] as const) {
    const message = `Firmware${name[0]?.toUpperCase()}${name.slice(1)}`;
    for (const update of examplesOf(message)) expect(kindOf(`thing/ota/${name}`, update)).toBe('update');
  }
  for (const command of examplesOf('Command')) {
    expect(parseControl(propertySetSchema.parse(command).params).ok).toBe(true);
  }
  for (const name of ['Auth', 'Subscribe', 'Unsubscribe', 'Publish', 'Ping']) {
    for (const request of examplesOf(name)) expect(relayRequestSchema.safeParse(request).success, name).toBe(true);
  }
});
