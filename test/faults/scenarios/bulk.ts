// Commands for many devices while the Worker is killed. Some devices are away, silent, disabled or foreign; the others count what they hear.
import mqtt from 'mqtt';
import { setTimeout as sleep } from 'node:timers/promises';
import { Changes, eventually } from '../../../rig/changes.ts';
import { activateMany, addProduct, signUp, type Activation } from '../../../rig/clients/accounts.ts';
import { connectApi, dataOf, type Api, type Data } from '../../../rig/clients/api.ts';
import { Mosquitto } from '../../../rig/brokers/mosquitto.ts';
import type { Scenario } from '../rig/scenario.ts';

const settlesWithinMs = 5 * 60_000;
const devicesPerRun = 500;
/** Of a run. A kill may meet all of them. */
const devicesPerRound = 50;
const size = '100';

const kinds = ['foreign', 'disabled', 'silent', 'away', 'present'] as const;
type Kind = (typeof kinds)[number];
/** Of a hundred devices, in the order of `kinds`. */
const places = [1, 1, 5, 10, 83].flatMap((share, index) => Array<Kind>(share).fill(kinds[index]!));

/** What is told of a device, and how many commands it hears. */
const outcomes: Record<Kind, readonly [string, number]> = {
  foreign: ['refused forbidden', 0],
  disabled: ['refused device_disabled', 0],
  silent: ['expired no_reply', 1],
  away: ['undelivered no_subscriber', 0],
  present: ['confirmed', 1],
};
/** If the Worker was killed meanwhile, and how many commands it may have heard. */
const excused: Record<string, number> = {
  'undelivered broker_unavailable': 0,
  // Its reply came after the command had expired.
  'expired no_reply': 1,
  'expired outcome_unknown': 1,
  'unknown outcome_unknown': 1,
  'unknown device_disabled': 0,
  'unknown forbidden': 0,
  acknowledged: 1,
};

type Item = Data<Api['bulk'][':bulkId']['$get']>['list'][number];
const wordsOf = ({ outcome, reason }: Item): string => `${outcome} ${reason ?? ''}`.trim();

export const bulk: Scenario = {
  name: 'bulk',
  title: 'a fleet and runs of 500 devices, 10 % away, 5 % silent, 2 % refused; the Worker is killed',
  seenBy: 'the devices’ own counts, and the outcomes in the runs',
  run: async ({ worker, random, count, say }) => {
    const [total, kills] = [count(5_000, 150), count(10, 1)];
    const { api } = worker.owner;
    const stranger = await signUp((credentials) => connectApi(worker.url, credentials));
    const kindOf = new Map<string, Kind>();
    const make = async (user: typeof stranger, chosen: Kind[]) => {
      const productKey = await addProduct(user);
      const devices = await activateMany(user.api, productKey, Array.from(chosen.keys(), String));
      for (const [index, { deviceId }] of devices.entries()) kindOf.set(deviceId, chosen[index]!);
      return { productKey, devices };
    };
    const half = Array.from({ length: total / 2 }, (_, index) => places[index % places.length]!);
    const [strange, known] = [half.filter((kind) => kind === 'foreign'), half.filter((kind) => kind !== 'foreign')];
    // No device of a fleet is foreign.
    const fleet = await make(worker.owner, [...strange.map(() => 'disabled' as const), ...known]);
    const listed = [await make(worker.owner, known), await make(stranger, strange)].flatMap(({ devices }) => devices);
    const isOf = (kind: Kind) => (deviceId: string) => kindOf.get(deviceId) === kind;
    for (const deviceId of [...kindOf.keys()].filter(isOf('disabled')))
      await dataOf(api.devices[':deviceId'].$patch({ param: { deviceId }, json: { disabled: true } }));
    const slices = Array.from({ length: Math.ceil(listed.length / devicesPerRun) }, (_, index) =>
      listed.slice(index * devicesPerRun, (index + 1) * devicesPerRun).map(({ deviceId }) => deviceId),
    );
    /** The same runs whenever it is called. */
    const start = async (): Promise<string[]> => {
      const { productKey } = fleet;
      const json = { command: { action: 'pulse' }, idempotencyKey: productKey };
      const command = { action: 'toggle', position: 'up' };
      const asked = slices.map((deviceIds, index) =>
        api.commands.$post({ json: { devices: deviceIds, command, idempotencyKey: `${productKey} ${index}` } }),
      );
      asked.push(api.products[':productKey'].commands.$post({ param: { productKey }, json }));
      return (await Promise.all(asked.map((answer) => dataOf(answer)))).map(({ bulkId }) => bulkId);
    };
    const broker = await Mosquitto.start();
    const bridge = worker.startBridge({ mqttUrl: broker.url });
    const there = [...fleet.devices, ...listed].filter(({ deviceId }) => !isOf('away')(deviceId));
    const devices = await listen(broker.url, there, isOf('present'));
    try {
      await bridge.untilReady();
      const bulkIds = await start();
      // Each kill spoils a few of the others.
      const sure = [...kindOf.values()].filter((kind) => outcomes[kind][1] > 0).length * 0.8;
      for (let killed = 1; killed <= kills; killed += 1) {
        const isDue = () => devices.heard.size >= (sure * (killed - 0.5)) / kills;
        await devices.changes.until(() => `${devices.heard.size} of ${sure} hear`, isDue, settlesWithinMs);
        await sleep(random.between(0, 50));
        await worker.restartWorker('kill');
        say(`killed ${killed} times, ${devices.heard.size} devices have heard`);
      }
      const failures = String(await start()) === String(bulkIds) ? [] : ['the same keys are other runs'];
      const items = (await Promise.all(bulkIds.map((bulkId) => untilSettled(api, bulkId)))).flat();
      if (items.length !== total) failures.push(`${items.length} items for ${total} devices`);
      let excuses = 0;
      for (const [deviceId, kind] of kindOf) {
        const own = items.filter((item) => item.deviceId === deviceId);
        const judged = judge(kind, devices.heard.get(deviceId) ?? [], own);
        if (judged === 'excused') excuses += 1;
        else if (judged !== 'right') failures.push(`${kind} ${deviceId} ${judged}`);
      }
      if (excuses > kills * bulkIds.length * devicesPerRound) failures.push(`kills spoiled ${excuses} commands`);
      const facts = [...Map.groupBy(items, wordsOf)].map(([words, { length }]) => `${length} ${words}`);
      return [{ label: `${kills} kills, ${total} devices, ${bulkIds.length} runs`, facts, failures }];
    } finally {
      devices.stop();
      await bridge.kill('SIGKILL');
      await broker.stop();
    }
  },
};

function judge(kind: Kind, heard: string[], [item, ...others]: Item[]): string {
  if (item === undefined || others.length > 0) return 'is not in one item';
  const { command } = item;
  if (command !== null && heard.some((id) => id !== command.commandId)) return `heard ${heard.join()}, not its command`;
  const words = wordsOf(item);
  const [wanted, times] = outcomes[kind];
  // No report shows a pulse.
  const own = wanted === 'confirmed' && command?.params.action === 'pulse' ? 'acknowledged' : wanted;
  if (words === own && heard.length === times) return 'right';
  return heard.length <= (excused[words] ?? -1) ? 'excused' : `is ${words}, and heard ${heard.length} commands`;
}

async function untilSettled(api: Api, bulkId: string): Promise<Item[]> {
  const { $get } = api.bulk[':bulkId'];
  const read = (page: number) => dataOf($get({ param: { bulkId }, query: { page: String(page), size, wait: '10' } }));
  // Just after a kill an answer may be missing.
  const isSettled = async () => (await read(1).catch(() => undefined))?.state === 'settled';
  await eventually(`${bulkId} is settled`, isSettled, settlesWithinMs);
  const { list, total } = await read(1);
  for (let page = 2; list.length < total; page += 1) list.push(...(await read(page)).list);
  return list;
}

/** On one connection. They note the commands that they hear; those that answer carry them out. */
async function listen(url: string, devices: Activation[], isAnswering: (deviceId: string) => boolean) {
  const client = await mqtt.connectAsync(url, { reconnectPeriod: 0 });
  const byTopic = new Map(devices.map((device) => [device.topics.propertySet, device]));
  /** Ids of commands, by device. */
  const heard = new Map<string, string[]>();
  const changes = new Changes();
  client.on('message', (topic, payload) => {
    const { deviceId, topics } = byTopic.get(topic)!;
    const { id, params } = JSON.parse(payload.toString()) as { id: string; params: { position?: string } };
    heard.set(deviceId, [...(heard.get(deviceId) ?? []), id]);
    changes.note();
    if (!isAnswering(deviceId)) return;
    const say = (body: object) => client.publish(topics.propertyPost, JSON.stringify(body), { qos: 1 });
    say({ method: 'thing.service.property.set_reply', id, code: 200 });
    if (params.position !== undefined) say({ params: { position: params.position } });
  });
  for (const topic of byTopic.keys()) await client.subscribeAsync(topic, { qos: 1 });
  return { heard, changes, stop: () => client.end(true) };
}
