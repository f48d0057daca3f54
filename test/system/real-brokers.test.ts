// The main job on brokers people run: the built Worker, the production bridge, plain MQTT clients, and Debian's own
// packages in between. Which login and topic checks each broker makes, and how, stands in broker-bridge/BROKERS.md.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RabbitMq, rabbitmqMissing } from '../support/real-broker-rabbitmq.ts';
import { bridgeName, bridgeSecret, hookSecret, RealClient, RealStack } from '../support/real-broker-stack.ts';
import { tellOfForeignTopics, tellOfLogins, tellOfTheJob, type Story } from '../support/real-broker-story.ts';

if (rabbitmqMissing !== null) console.warn(`skipped: ${rabbitmqMissing}`);

describe.skipIf(rabbitmqMissing !== null)('RabbitMQ, asking the service over HTTP', () => {
  const parts: { stop: () => Promise<void> }[] = [];
  let stack: RealStack;
  const story = (serial: string): Story => ({ stack, protocolVersion: 4, refusal: /^code [45]$/, serial });

  beforeAll(async () => {
    stack = await RealStack.start({ BROKER_REPORTS_CONNECTIONS: 'false' });
    parts.push(stack);
    const hookUrl = `${stack.workerUrl}/hooks/rabbitmq/s/${hookSecret}`;
    parts.push(await RabbitMq.start({ port: stack.mqttPort, hookUrl }));
    await stack.startBridge();
  });
  afterAll(async () => {
    for (const part of parts) await part.stop();
  });

  it('lets in exactly the documented identities', () => tellOfLogins(story('logins')));
  it('keeps devices apart', () => tellOfForeignTopics(story('foreign')));
  it('carries reports up and commands down', () => tellOfTheJob(story('job')));

  it('lets the bridge hear devices and nothing else', async () => {
    const bridge = await RealClient.connect(stack.brokerUrl, {
      username: bridgeName,
      password: bridgeSecret,
      clientId: bridgeName,
      protocolVersion: 4,
    });
    expect(await bridge.trySubscribe('/sys/#')).toBe(false);
    await bridge.leave();
  });
});
