// B3 and B3e: from an HTTP command to the device's report of the new position on the relay. B3 goes through bridge and broker,
// B3e over a direct connection, against the way of B3. Each command is accounted for.
import { setTimeout as sleep } from 'node:timers/promises';
import { connectAsync, type IClientOptions, type MqttClient } from 'mqtt';
import type { Activation } from '../rig/clients/accounts.ts';
import { sendWithoutDelay } from '../rig/clients/mqtt-client.ts';
import { GatewayProcess } from '../rig/services/processes.ts';
import { connectFramed } from './parts/framed-client.ts';
import { ask, encodeRequest, openConnection } from './parts/http-load.ts';
import type { Measure } from './parts/results.ts';
import { BenchRig } from './parts/rig.ts';
import { compareSides, ratiosOf, type Benchmark, type BenchOptions } from './parts/rounds.ts';
import { percentile } from './parts/statistics.ts';

type Side = 'bridge' | 'direct' | 'gateway';
type Times = Record<50 | 99, number>;

const fullCommands = 300;
const quickCommands = 20;
const percents = [50, 99] as const;
const targetsMs: Times = { 50: 4.5, 99: 8 };
const lostAfterMs = 5_000;
const surplusWithinMs = 300;
const positions = ['up', 'middle', 'down'] as const;
const settings = [
  'one after the other; every command moves the switch, its report at QoS 1; all sockets send without delay',
];

export const command: Benchmark = {
  name: 'B3',
  variants: [],
  measure: async (options) => {
    const { times, failures } = await measureCommands('B3', ['bridge'], options);
    const measures = percents.map((percent): Measure => {
      const perRound = times.bridge.map((round) => round[percent]);
      return { name: `p${percent}`, unit: 'ms', perRound, target: { atMost: targetsMs[percent] } };
    });
    const title = 'command round trip: HTTP -> Worker -> bridge -> broker -> device -> its report -> relay';
    return { title, settings, measures, failures };
  },
};

export const directCommand: Benchmark = {
  name: 'B3e',
  variants: [],
  measure: async (options) => {
    const sides = ['bridge', 'direct', 'gateway'] as const;
    const { times, failures } = await measureCommands('B3e', sides, options);
    const timesOf = (side: Side, percent: 50 | 99): number[] => times[side].map((round) => round[percent]);
    const shares = percents.map((percent): Measure => {
      const perRound = ratiosOf(timesOf('direct', percent), timesOf('bridge', percent));
      return { name: `direct, p${percent}`, unit: 'x bridge', perRound, target: { atMost: 0.5 } };
    });
    const absolute = sides.flatMap((side) =>
      percents.map((percent) => ({ name: `  ${side}, p${percent}`, unit: 'ms', perRound: timesOf(side, percent) })),
    );
    const title = 'command round trip on a direct connection: HTTP -> Worker -> device -> its report -> relay';
    return {
      title,
      settings: [...settings, 'mqtt.js as the device; direct: it sends a packet a frame, as firmware does'],
      measures: [...shares, ...absolute],
      failures,
    };
  },
};

type Push = { topic: string; payload: { params: { position?: string } } };

/** Commands of all sides go one after the other. */
async function measureCommands(name: string, sides: readonly Side[], options: BenchOptions) {
  const count = options.isQuick ? quickCommands : fullCommands;
  const rig = await options.keep(BenchRig.start({ deviceCount: sides.length }));
  await rig.startBridge();
  const startGateway = () => GatewayProcess.start(rig.worker.url, { LOG_LEVEL: 'info' });
  await using gateway = sides.includes('gateway') ? await startGateway() : null;
  const failures: string[] = [];
  const seen = { commands: 0, reports: 0 };
  let expected = { topic: '', position: '', arrive: (_atMs: number): void => undefined };
  await rig.follow(
    rig.devices.map(({ topics }) => topics.propertyPost),
    (text) => {
      const { topic, payload } = JSON.parse(text) as Push;
      seen.reports += 1;
      if (topic === expected.topic && payload.params.position === expected.position) expected.arrive(performance.now());
    },
  );
  const deviceOf = (side: Side): Activation => {
    const device = rig.devices[sides.indexOf(side)];
    if (device === undefined) throw new Error(`no device for ${side}`);
    return device;
  };
  for (const side of sides) {
    const device = deviceOf(side);
    const urls = {
      bridge: rig.broker.url,
      direct: `${rig.worker.url.replace(/^http/, 'ws')}/mqtt/${device.deviceId}`,
      gateway: `mqtt://127.0.0.1:${gateway?.port}`,
    };
    const open = side === 'direct' ? connectFramed : connectAsync;
    const client = await connectDevice(open, urls[side], device, () => (seen.commands += 1));
    await options.keep({ stop: () => client.endAsync(true) });
  }
  const run = async (side: Side): Promise<Times> => {
    const { deviceId, topics } = deviceOf(side);
    const [path, token] = [`/api/v1/devices/${deviceId}/control`, rig.worker.owner.token];
    const connection = await openConnection(rig.worker.port);
    const timesMs: number[] = [];
    Object.assign(seen, { commands: 0, reports: 0 });
    for (let sent = 0; sent < count; sent += 1) {
      const position = positions[sent % positions.length] ?? 'up';
      const { promise: arrived, resolve: arrive } = Promise.withResolvers<number>();
      expected = { topic: topics.propertyPost, position, arrive };
      const startedAtMs = performance.now();
      const answer = await ask(connection, encodeRequest({ path, token, body: { action: 'toggle', position } }));
      if (!answer.includes('command_sent')) throw new Error(`a command was refused: ${answer}`);
      const atMs = await Promise.race([arrived, sleep(lostAfterMs, null, { ref: false })]);
      if (atMs === null) failures.push(`${side}: a report did not arrive`);
      else timesMs.push(atMs - startedAtMs);
    }
    connection.destroy();
    // For reports that should not come.
    await sleep(surplusWithinMs);
    if (seen.commands !== count) failures.push(`${side}: ${count} commands sent, the device heard ${seen.commands}`);
    if (seen.reports > count) failures.push(`${side}: ${count} commands sent, ${seen.reports} reports came`);
    return { 50: percentile(timesMs, 50), 99: percentile(timesMs, 99) };
  };
  const show = (round: Times): string => `p50 ${round[50].toFixed(1)} ms, p99 ${round[99].toFixed(1)} ms`;
  return { times: await compareSides(name, sides, options, run, show), failures };
}

/** A device that reports the commanded position at once. */
async function connectDevice(
  open: (url: string, options: IClientOptions) => Promise<MqttClient>,
  url: string,
  { mqtt: { clientId, username, password }, topics }: Activation,
  onCommand: () => void,
): Promise<MqttClient> {
  const client = await open(url, { clientId, username, password, protocolVersion: 4, reconnectPeriod: 0 });
  sendWithoutDelay(client);
  client.on('message', (_, payload) => {
    onCommand();
    const { id, params } = JSON.parse(payload.toString()) as { id: string; params: { position: string } };
    const report = { method: 'thing.event.property.post', id, params: { position: params.position, wifi_rssi: -58 } };
    client.publish(topics.propertyPost, JSON.stringify(report), { qos: 1 });
  });
  await client.subscribeAsync(topics.propertySet, { qos: 1 });
  return client;
}
