// B3e: an HTTP command to a device at the edge, directly and through the gateway, until its report of the new position is
// on the relay; against the way through bridge and broker in the same run. Each command is accounted for.
import { Agent } from 'node:http';
import type { Socket } from 'node:net';
import { connectAsync, type MqttClient } from 'mqtt';
import type { Activation } from '../rig/clients/accounts.ts';
import { GatewayProcess } from '../rig/services/processes.ts';
import { PlainDevice, postCommand, ReportWatch } from './command.ts';
import { CpuMeter } from './parts/cpu-time.ts';
import { connectFramed } from './parts/framed-client.ts';
import type { BenchResult, Measure } from './parts/results.ts';
import type { BenchRig } from './parts/rig.ts';
import { percentile } from './parts/statistics.ts';

const sides = ['bridge', 'edge', 'library', 'gateway'] as const;
type Side = (typeof sides)[number];

const commandsARound = { full: 300, quick: 20 };
const warmUpCommands = 150;
const positions = ['up', 'middle', 'down'] as const;
const targetShare = { atMost: 0.5 };

/** One for each side: commands go to an open session at the edge first. */
export const edgeCommandDevices = sides.length;

export type EdgeCommandOptions = { rounds: number; isQuick: boolean; say: (line: string) => void };

export async function measureEdgeCommands(rig: BenchRig, options: EdgeCommandOptions): Promise<BenchResult> {
  const { rounds, isQuick, say } = options;
  const { broker, worker } = rig;
  const [bridge, gateway] = [await rig.startBridge(), await GatewayProcess.start(worker.url, { LOG_LEVEL: 'info' })];
  const watch = new ReportWatch();
  const agent = new Agent({ keepAlive: true });
  const clients: MqttClient[] = [];
  const connect = async (side: Side, url: string, device: Activation): Promise<MqttClient> => {
    const { clientId, username, password } = device.mqtt;
    const session = { protocolVersion: 4, clean: true, reconnectPeriod: 0 } as const;
    const open = side === 'edge' ? connectFramed : connectAsync;
    const client = await open(url, { clientId, username, password, ...session });
    if (url.startsWith('mqtt:')) (client.stream as unknown as Socket).setNoDelay(true);
    clients.push(client);
    return client;
  };
  const overWebSocket = ({ deviceId }: Activation): string => `${worker.url.replace(/^http/, 'ws')}/mqtt/${deviceId}`;
  const urlOf: Record<Side, (device: Activation) => string> = {
    bridge: () => broker.url,
    edge: overWebSocket,
    library: overWebSocket,
    gateway: () => `mqtt://127.0.0.1:${gateway.port}`,
  };
  const devices = new Map<Side, { device: Activation; plain: PlainDevice }>();
  for (const [index, side] of sides.entries()) {
    const device = rig.devices[index];
    if (device === undefined) throw new Error('too few devices');
    devices.set(side, {
      device,
      plain: await PlainDevice.start(device, () => connect(side, urlOf[side](device), device), { isAlsoPlain: false }),
    });
  }
  const relay = await rig.follow(
    rig.devices.map(({ topics }) => topics.propertyPost),
    (text) => {
      const { topic, payload } = JSON.parse(text) as { topic: string; payload: unknown };
      watch.note(topic, payload);
    },
  );
  const failures: string[] = [];
  const run = async (side: Side, count: number): Promise<number[]> => {
    const { device, plain } = devices.get(side) ?? {};
    if (device === undefined || plain === undefined) throw new Error(`no device for ${side}`);
    const timesMs: number[] = [];
    for (let n = 0; n < count; n += 1) {
      const position = positions[n % positions.length] ?? 'up';
      const url = `${worker.url}/api/v1/devices/${device.deviceId}/control`;
      const startedAtMs = performance.now();
      const seen = watch.next(device.topics.propertyPost, position);
      await postCommand(agent, url, worker.owner.token, { action: 'toggle', position });
      const atMs = await seen;
      if (atMs === null) failures.push(`${side}: a report did not arrive`);
      else timesMs.push(atMs - startedAtMs);
    }
    const [heard, reports] = [plain.takeCount(), watch.takeCount()];
    if (heard !== count) failures.push(`${side}: ${count} commands sent, the device heard ${heard}`);
    if (reports !== count) failures.push(`${side}: ${count} commands sent, ${reports} reports came`);
    return timesMs;
  };
  const own = { 'application and devices': { pid: process.pid, isGroup: false } };
  const Worker = { pid: worker.pid, isGroup: true };
  const cpu: Record<Side, CpuMeter> = {
    bridge: new CpuMeter({
      ...own,
      broker: { pid: broker.pid, isGroup: false },
      bridge: { pid: bridge.pid, isGroup: false },
      Worker,
    }),
    edge: new CpuMeter({ ...own, Worker }),
    library: new CpuMeter({ ...own, Worker }),
    gateway: new CpuMeter({ ...own, gateway: { pid: gateway.pid, isGroup: false }, Worker }),
  };
  const times: Record<Side, Record<50 | 99, number[]>> = {
    bridge: { 50: [], 99: [] },
    edge: { 50: [], 99: [] },
    library: { 50: [], 99: [] },
    gateway: { 50: [], 99: [] },
  };
  const count = isQuick ? commandsARound.quick : commandsARound.full;
  try {
    for (const side of sides) await run(side, isQuick ? commandsARound.quick : warmUpCommands);
    for (let round = 0; round < rounds; round += 1) {
      for (const index of sides.keys()) {
        const side = sides[(index + round) % sides.length] ?? 'edge';
        const timesMs = await cpu[side].during(count, () => run(side, count));
        for (const percent of [50, 99] as const) times[side][percent].push(percentile(timesMs, percent));
      }
      const shown = sides.map((side) => `${side} p50 ${times[side][50].at(-1)?.toFixed(1)} ms`);
      say(`B3e round ${round + 1}: ${shown.join(', ')}`);
    }
  } finally {
    await relay.stop();
    for (const client of clients) await client.endAsync(true);
    agent.destroy();
    await gateway.kill('SIGTERM');
    await bridge.kill('SIGTERM');
  }
  return {
    name: 'B3e',
    title: 'command round trip at the edge: HTTP -> Worker -> device -> its report -> relay',
    settings: [
      'one after the other; every command moves the switch, its report at QoS 1; mqtt.js as the device',
      'edge: it sends a packet a frame, as firmware does; library: as it is, over WebSocket a frame for each field of a packet',
    ],
    measures: measuresOf(times, cpu, isQuick),
    failures,
  };
}

function measuresOf(
  times: Record<Side, Record<50 | 99, number[]>>,
  cpu: Record<Side, CpuMeter>,
  isQuick: boolean,
): Measure[] {
  const measures: Measure[] = ([50, 99] as const).map((percent) => ({
    name: `edge, p${percent}`,
    unit: 'x bridge',
    perRound: times.edge[percent].map((ms, round) => ms / (times.bridge[percent][round] ?? 0)),
    ...(isQuick ? {} : { target: targetShare }),
  }));
  for (const side of sides) {
    for (const percent of [50, 99] as const) {
      measures.push({ name: `  ${side}, p${percent}`, unit: 'ms', perRound: times[side][percent] });
    }
    const perRound = cpu[side].totalPerRound('application and devices');
    measures.push({ name: `  processor time (${side})`, unit: 'µs/command', perRound });
  }
  return measures;
}
