// Messages that the Worker will never take, among good ones of the same devices in every batch.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { FaultRig } from '../rig/fault-rig.ts';
import type { Numbered } from '../rig/message-maker.ts';
import type { Random } from '../../../rig/inputs/random.ts';
import { find, type Scenario } from '../rig/scenario.ts';
import type { Activation } from '../../../rig/clients/accounts.ts';

const goodPerPoison = 5;

export const poison: Scenario = {
  name: 'poison',
  title: 'one message in six can never be taken',
  run: async ({ worker, random, count }) => {
    await using rig = await FaultRig.open(worker, 30);
    const spool = await rig.makeSpool();
    await rig.startBridge({ spool }).untilBrokerConnected();
    let poisonous = 0;
    await rig.load(count(20_000, 1200), 600, (index) => {
      const good = rig.maker.make();
      if (index % goodPerPoison > 0) return [good];
      poisonous += 1;
      const device = rig.devices.find(({ deviceId }) => deviceId === good.device);
      return device === undefined ? [good] : [makePoison(random, device), good];
    });
    const outcome = await rig.finish();
    const letters = countDeadLetters(spool.dir);
    const finding = find('poison in every batch', outcome, [`${poisonous} poisonous, ${letters} dead letters`]);
    if (letters !== poisonous) finding.failures.push(`${letters} dead letters for ${poisonous} poisonous messages`);
    return [finding];
  },
};

function makePoison(random: Random, { topics, deviceId }: Activation): Numbered {
  const { propertyPost: topic, status: statusTopic } = topics;
  const post = (payload: string | Buffer): { topic: string; payload: string | Buffer } => ({ topic, payload });
  const kinds = [
    post('{"method":"thing.event.property.post","params":'),
    post(''),
    post('null'),
    post('[1,2,3]'),
    post('{"method":"thing.event.no.such","params":{}}'),
    post('{"method":"thing.event.property.post","params":"up"}'),
    post(Buffer.from([0x7b, 0xff, 0xfe, 0x7d])),
    post(`{"params":{"pad":"${'x'.repeat(17_000)}"}}`),
    post('\u0000\ud83d\ude00"'),
    { topic: statusTopic, payload: '{"status":"perhaps"}' },
    { topic: topic.replace(deviceId, 'no-such-device'), payload: '{"params":{"position":"up"}}' },
    { topic: topic.replace(/^\/sys\/[^/]+/, '/sys/no-such-product'), payload: '{"params":{"position":"up"}}' },
  ] as const;
  return { ...random.pick(kinds), number: null, device: deviceId, isResting: false };
}

function countDeadLetters(spoolDir: string): number {
  return readdirSync(spoolDir)
    .filter((name) => name.startsWith('dead-letters'))
    .reduce((sum, name) => sum + readFileSync(join(spoolDir, name), 'utf8').trimEnd().split('\n').length, 0);
}
