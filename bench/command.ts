// B3 and B3e: from an HTTP command to the device's report of the new position on the relay. B3 goes through bridge and broker,
// B3e over a direct connection, against the way of B3. Each command is accounted for.
import { setTimeout as sleep } from 'node:timers/promises';
import { connectAsync } from 'mqtt';
import type { Activation } from '../rig/clients/accounts.ts';
import { GatewayProcess } from '../rig/services/processes.ts';
import { connectFramed } from './parts/framed-client.ts';
import type { Measure } from './parts/results.ts';
import { BenchRig } from './parts/rig.ts';
import { compareSides, ratiosOf, type Benchmark, type BenchOptions } from './parts/rounds.ts';
import { percentile } from './parts/statistics.ts';
import { carryOut, TimedCommands } from './parts/timed-commands.ts';

type Side = 'bridge' | 'direct' | 'gateway';
type Times = Record<50 | 99, number>;

const fullCommands = 300;
const quickCommands = 20;
const percents = [50, 99] as const;
const targetsMs: Times = { 50: 4.5, 99: 8 };
const surplusWithinMs = 300;
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

/** Commands of all sides go one after the other. */
async function measureCommands(name: string, sides: readonly Side[], options: BenchOptions) {
  const count = options.isQuick ? quickCommands : fullCommands;
  const rig = await options.keep(BenchRig.start({ deviceCount: sides.length }));
  await rig.startBridge();
  const startGateway = () => GatewayProcess.start(rig.worker.url, { LOG_LEVEL: 'info' });
  await using gateway = sides.includes('gateway') ? await startGateway() : null;
  const failures: string[] = [];
  const commands = await TimedCommands.open(rig);
  let heard = 0;
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
    const { clientId, username, password } = device.mqtt;
    const client = await open(urls[side], { clientId, username, password, protocolVersion: 4, reconnectPeriod: 0 });
    await options.keep({ stop: () => client.endAsync(true) });
    await carryOut(client, [device], () => (heard += 1));
  }
  const run = async (side: Side): Promise<Times> => {
    const timesMs: number[] = [];
    heard = commands.reports = 0;
    for (let sent = 0; sent < count; sent += 1) {
      const ms = await commands.send(deviceOf(side));
      if (ms === null) failures.push(`${side}: a report did not arrive`);
      else timesMs.push(ms);
    }
    // For reports that should not come.
    await sleep(surplusWithinMs);
    if (heard !== count) failures.push(`${side}: ${count} commands sent, the device heard ${heard}`);
    if (commands.reports > count) failures.push(`${side}: ${count} commands sent, ${commands.reports} reports came`);
    return { 50: percentile(timesMs, 50), 99: percentile(timesMs, 99) };
  };
  const show = (round: Times): string => `p50 ${round[50].toFixed(1)} ms, p99 ${round[99].toFixed(1)} ms`;
  return { times: await compareSides(name, sides, options, run, show), failures };
}
