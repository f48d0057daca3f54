// Events of many devices on their way to receivers that misbehave, while the Worker is killed between sending and noting.
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../../rig/changes.ts';
import { activateMany, addProduct, type Activation } from '../../../rig/clients/accounts.ts';
import { dataOf } from '../../../rig/clients/api.ts';
import { WorkerRig, workerVars } from '../../../rig/worker/worker-rig.ts';
import { eventTypes } from '../../../src/protocol/vocabulary.ts';
import { JudgingReceiver, type Answer } from '../rig/webhook-receiver.ts';
import type { Scenario } from '../rig/scenario.ts';

const secondMs = 1_000;
const minuteMs = 60_000;
const devicesPerBatch = 50;
/** A device keeps 200 events: the load waits before a receiver that is well loses any. */
const maxBehind = 50;
const kept = 200;
const maxPage = 100;
/** With the pauses after an outage, and their spread. */
const arrivesWithinMs = 15 * minuteMs;
/** Of messages, at a receiver that does each thing at times. */
const faultShare = 0.02;
/** Each costs this process some milliseconds. */
const largeShare = 0.2;

/** Besides one that is well. Outages begin after a fifth of the load. */
const outages: Answer[] = ['500', '301', 'hang', 'reset'];
const kinds = ['200', '10 MiB', '410', 'mixed', ...outages] as const;

type Line = { kind: (typeof kinds)[number]; receiver: JudgingReceiver; webhookId: string; devices: Activation[] };

export const webhooks: Scenario = {
  name: 'webhooks',
  title:
    'receivers answer 200, 500, 410, 301, hang, reset and send 10 MiB; the Worker is killed before it notes answers',
  seenBy: 'the receivers, and the events that the devices keep',
  run: async ({ random, isShort, count, say }) => {
    const rounds = count(500, 300);
    const kills = count(10, 2);
    const outageMs = count(40, 2) * secondMs;
    // Receivers that were away catch up, and leave the Worker time for the rest.
    const LIMITS = `${workerVars.LIMITS},webhookDeliveriesPerSecond=40`;
    const worker = await WorkerRig.start({ vars: { ACCESS_TOKEN_SECONDS: '86400', LIMITS } });
    const { api } = worker.owner;
    const lines: Line[] = [];
    const counts = new Map<string, number>();
    try {
      for (const kind of kinds) {
        const [receiver, productKey] = [await JudgingReceiver.start(counts), await addProduct(worker.owner)];
        const json = { url: `${receiver.server.url}/hook`, types: [...eventTypes], productKey };
        const { webhookId, secret } = await dataOf(api.webhooks.$post({ json }));
        receiver.secret = secret;
        const serials = Array.from({ length: isShort ? 1 : 25 }, (_, index) => `${kind} ${index}`);
        lines.push({ kind, receiver, webhookId, devices: await activateMany(api, productKey, serials) });
      }
      const lineOf = (wanted: Line['kind']) => lines.find(({ kind }) => kind === wanted)!;
      const { receiver: well, devices: wellDevices } = lineOf('200');
      const devices = random.shuffle(lines.flatMap((line) => line.devices));
      const batches = Array.from({ length: Math.ceil(devices.length / devicesPerBatch) }, (_, index) =>
        devices.slice(index * devicesPerBatch, (index + 1) * devicesPerBatch),
      );
      let sent = 0;
      const progress = () => sent / (rounds * batches.length);
      let outageEndsAtMs = Infinity;
      const isOutage = () =>
        progress() > 0.2 && Date.now() < (outageEndsAtMs = Math.min(outageEndsAtMs, Date.now() + outageMs));
      for (const { kind, receiver } of lines) {
        if (kind === '10 MiB') receiver.choose = () => (random.isBelow(largeShare) ? kind : '200');
        else if (kind === '410') receiver.choose = () => (progress() > 0.2 ? kind : '200');
        else if (kind === 'mixed') {
          const isFault = () => progress() < 0.8 && random.isBelow(faultShare);
          receiver.choose = () => (isFault() ? random.pick(['500', '301', 'hang', 'reset', '10 MiB']) : '200');
        } else if (kind !== '200') receiver.choose = () => (isOutage() ? kind : '200');
      }

      const send = async (batch: Activation[]): Promise<void> => {
        const watched = batch.filter((device) => wellDevices.includes(device));
        for (let round = 1; round <= rounds; round += 1) {
          const isBehind = () => watched.some(({ deviceId }) => well.arrivedUpTo(deviceId) < round - maxBehind);
          // Not for ever: after a kill it is the next event that sends the former one again.
          for (let waited = 0; waited < 50 && isBehind(); waited += 1) await sleep(10);
          const params = { position: round % 2 === 0 ? 'down' : 'up' };
          const payload = JSON.stringify({ method: 'thing.event.property.post', id: String(round), params });
          const messages = batch.map(({ topics }) => ({ topic: topics.propertyPost, payload }));
          const isTaken = () =>
            worker.sendBatch(messages).then(
              () => true,
              () => false,
            );
          await eventually('a batch is taken', isTaken, minuteMs);
          sent += 1;
        }
      };
      const kill = async (): Promise<void> => {
        for (let killed = 1; killed <= kills; killed += 1) {
          await eventually('the time of a kill', () => progress() >= (0.9 * killed) / (kills + 1), 60 * minuteMs);
          // In turn: no answer comes before the end, or answers have just come.
          if (killed % 2 === 1) {
            well.isHolding = true;
            await well.changes.until('a message', () => !well.isHolding);
          } else await sleep(random.between(0, 50));
          await worker.restartWorker('kill');
          say(`killed ${killed} times, ${Math.round(progress() * 100)} % are sent`);
        }
      };
      await Promise.all([...batches.map(send), kill()]);

      const { receiver: gone, webhookId } = lineOf('410');
      const param = { webhookId };
      const { disabledBecause } = await dataOf(api.webhooks[':webhookId'].$get({ param }));
      gone.choose = () => '200';
      await dataOf(api.webhooks[':webhookId'].$patch({ param, json: {} }));
      say('all are sent');

      const read = async (deviceId: string, after: number) => {
        const query = { after: String(after), size: String(maxPage) };
        return dataOf(api.devices[':deviceId'].events.$get({ param: { deviceId }, query })) as Promise<Kept>;
      };
      const failures: string[] = [];
      let events = 0;
      for (const { receiver, kind, devices: own } of lines) {
        for (const { deviceId } of own) {
          const arrived = () => receiver.arrivedUpTo(deviceId);
          const isComplete = async () => {
            const { last } = await read(deviceId, arrived());
            if (last > arrived()) await sleep(500);
            return last === arrived();
          };
          await eventually(() => `${kind}: ${deviceId} has ${arrived()}`, isComplete, arrivesWithinMs);
          events += arrived();
          if (arrived() < rounds) failures.push(`${deviceId} made ${arrived()} events of ${rounds} reports`);
          for (let after = Math.max(0, arrived() - kept); after < arrived(); after += maxPage) {
            const { list, gap } = await read(deviceId, after);
            if (gap !== null) failures.push(`${deviceId} has no events ${gap.from} to ${gap.to}`);
            for (const { number, type, time, data } of list) {
              const body = JSON.stringify({ type, timestamp: time, data: { deviceId, number, ...data } });
              const came = receiver.bodies.get(`msg_${deviceId}_${number}`);
              if (came !== body) failures.push(`${kind}: ${deviceId} keeps ${body}, and what came was ${came}`);
            }
          }
        }
        failures.push(...receiver.failures.map((failure) => `${kind}: ${failure}`));
      }
      const missing = [...outages, '200', '410', '10 MiB', 'repeated', 'in gaps'].filter((what) => !counts.get(what));
      if (missing.length > 0) failures.push(`never happened: ${missing.join()}`);
      if (disabledBecause !== 'receiver_gone') failures.push(`410 left it ${disabledBecause}`);
      const facts = [...counts].map(([what, number]) => `${what}: ${number}`);
      return [{ label: `${kills} kills, ${events} events of ${devices.length} devices`, facts, failures }];
    } finally {
      for (const { receiver } of lines) await receiver.server.stop();
      await worker.stop();
    }
  },
};

type Kept = {
  list: { number: number; type: string; time: string; data: Record<string, unknown> }[];
  gap: { from: number; to: number } | null;
  last: number;
};
