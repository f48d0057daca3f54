// Publishes whose caller wants the broker's reply: the bridge finds it on the topic that the Worker names. mosquitto without
// its plugin takes the part of the broker that never replies, a client the part of one that does.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { BridgeRig } from '../../rig/services/bridge-rig.ts';
import { Mosquitto, mosquittoMissing } from '../../rig/brokers/mosquitto.ts';
import { MqttTestClient } from '../../rig/clients/mqtt-client.ts';

const topic = '$CONTROL/test/v1';
const replyTopic = '$CONTROL/test/v1/response';

if (mosquittoMissing !== null) console.warn(`skipped: ${mosquittoMissing}`);

describe.skipIf(mosquittoMissing !== null).each(['5', '3.1.1'])('a reply over MQTT %s', (MQTT_PROTOCOL) => {
  let rig: BridgeRig<Mosquitto>;

  beforeEach(async () => {
    rig = await BridgeRig.start(await Mosquitto.start(), { MQTT_PROTOCOL });
    rig.startBridge();
    await rig.worker.untilActive();
  });
  afterEach(() => rig.close());

  test('is the message that contains the text, and never goes up', async () => {
    const other = await MqttTestClient.open(rig.broker.url, { clientId: 'replies' });
    await other.trySubscribe('ask');
    other.client.on('message', () => {
      for (const reply of ['to somebody else', 'number-1 done', 'number-1 twice']) {
        other.client.publish('$test/answer', reply);
      }
    });
    rig.worker.publish({ id: 'a', topic: 'ask', reply: { topic: '$test/answer', containing: 'number-1' } });
    expect(await rig.worker.answerTo('a')).toMatchObject({ type: 'published', reply: 'number-1 done' });
    expect(rig.worker.batches).toEqual([]);
    await other.leave();
  });

  test('that does not come leaves a publish without one', async () => {
    const expiresAtMs = Date.now() + 2_000;
    rig.worker.publish({ id: 'a', topic, expiresAtMs, reply: { topic: replyTopic, containing: 'number-1' } });
    const answer = await rig.worker.answerTo('a');
    expect(answer).toMatchObject({ type: 'published', id: 'a' });
    expect(answer).not.toHaveProperty('reply');
  });
});
