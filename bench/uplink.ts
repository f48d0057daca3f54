// B2: reports through broker, bridge, Worker and relay, against the same reports through the same broker to a plain
// subscriber. Both sides in turns, each report accounted for.
import { TcpProxy } from '../rig/clients/tcp-proxy.ts';
import { untilResting } from './parts/cpu-time.ts';
import { subscribePlainly } from './parts/plain-subscriber.ts';
import { brokerLines, Publishers } from './parts/publishers.ts';
import { Arrivals, makeReports, type Kind } from './parts/reports.ts';
import type { BenchResult, Measure, Target } from './parts/results.ts';
import type { BenchRig } from './parts/rig.ts';
import { ratiosOf, takeTurns, type BenchOptions } from './parts/rounds.ts';

type Variant = {
  name: string;
  deviceCount: number;
  kind: Kind;
  oneWayMs: number;
  target: Target;
};
type Side = 'plain' | 'latchwork';

/** 30 ms are added to each direction: the harder reading of the target. */
const variants: Variant[] = [
  variant('10 devices', 10, 'resting', 0, 0.62),
  variant('10 devices, moving', 10, 'moving', 0, 0.62),
  variant('10 devices, 30 ms away', 10, 'resting', 30, 0.6),
  variant('1 000 devices', 1_000, 'resting', 0, 0.35),
  variant('1 000 devices, moving', 1_000, 'moving', 0, 0.2),
];
const fullReports = 40_000;
const quickReports = 2_000;
/** Rounds of each side that are not counted, until the engines have compiled the hot code. */
const warmUpRounds = 2;

/** Topics of the same form and length that no bridge listens to: the other side's turn costs it nothing. */
const roots: Record<Side, string> = { plain: '/syx/', latchwork: '/sys/' };
const plainFilter = '/syx/+/+/thing/event/property/post';

export const uplinkVariants: readonly string[] = variants.map(({ name }) => name);

export const uplinkDevices = Math.max(...variants.map(({ deviceCount }) => deviceCount));

export async function measureUplink(rig: BenchRig, options: BenchOptions): Promise<BenchResult> {
  const result: BenchResult = {
    name: 'B2',
    title: 'uplink, QoS 1: broker -> bridge -> Worker -> device -> relay, against broker -> plain subscriber',
    settings: [
      'plain: mqtt.js as in the bridge, MQTT 5, persistent session, receive maximum 500, nothing kept safe',
      'relay: one WebSocket for 100 devices; publishers: a thread with 4 connections and ready-made packets',
      'resting: position unchanged, signal strength differs; moving: every report tells another position',
      describeRounds(options.isQuick),
    ],
    measures: [],
    failures: [],
  };
  const publishers = await Publishers.connect(brokerLines(rig.broker.port));
  try {
    for (const variant of variants) {
      if (options.variant !== null && variant.name !== options.variant) continue;
      const { measures, failures } = await measureVariant(rig, publishers, variant, options);
      result.measures.push(...measures);
      result.failures.push(...failures);
    }
  } finally {
    await publishers.stop();
  }
  return result;
}

function describeRounds(isQuick: boolean): string {
  const [reports, before] = isQuick ? [quickReports, 'none'] : [fullReports, warmUpRounds];
  const count = reports.toLocaleString('en').replace(',', ' ');
  const reach = 'at most 10 000 of them under way, until the last one has arrived';
  return `each round: ${count} reports, ${reach}; ${before} before the first that counts`;
}

async function measureVariant(
  rig: BenchRig,
  publishers: Publishers,
  { name, deviceCount, kind, oneWayMs, target }: Variant,
  { rounds, isQuick, say }: BenchOptions,
): Promise<{ measures: Measure[]; failures: string[] }> {
  const { broker, worker } = rig;
  const devices = rig.devices.slice(0, deviceCount);
  const count = isQuick ? quickReports : fullReports;
  const proxy = oneWayMs === 0 ? null : await TcpProxy.start(worker.port, oneWayMs);
  const bridge = await rig.startBridge(proxy?.url);
  let arrivals = new Arrivals(0);
  const onText = (text: string): void => {
    arrivals.add(text);
    publishers.noteArrival();
  };
  const reportTopics = devices.map(({ topics }) => topics.propertyPost);
  const relay = await rig.follow(reportTopics, onText);
  const failures: string[] = [];
  const rates: Record<Side, number[]> = { plain: [], latchwork: [] };

  const send = async (side: Side, reportCount: number): Promise<number> => {
    const reports = makeReports(devices, reportCount, kind, roots[side]);
    const loads = publishers.prepare(reports);
    arrivals = new Arrivals(reportCount);
    const startedAtMs = performance.now();
    const published = publishers.publish(loads);
    const endedAtMs = await arrivals.untilComplete();
    publishers.releaseAll();
    await published;
    const problems = arrivals.check(reports);
    if (problems.length > 0) failures.push(`${name}, ${side}: ${problems.join(', ')}`);
    return endedAtMs === null ? 0 : (reportCount * 1000) / (endedAtMs - startedAtMs);
  };
  const sides: Record<Side, () => Promise<number>> = {
    plain: async () => {
      const subscriber = await subscribePlainly(broker.url, plainFilter, onText);
      try {
        return await send('plain', count);
      } finally {
        await subscriber.stop();
      }
    },
    latchwork: () => send('latchwork', count),
  };

  try {
    // The first report of a device writes and announces that it is online: done before anything is counted.
    await send('latchwork', Math.max(deviceCount, 1_000));
    await untilResting({ pid: worker.pid, isGroup: true });
    for (let round = 0; round < (isQuick ? 0 : warmUpRounds); round += 1) {
      for (const side of ['latchwork', 'plain'] as const) await sides[side]();
    }
    for (let round = 0; round < rounds; round += 1) {
      await takeTurns(['plain', 'latchwork'], round, async (side) => {
        rates[side].push(await sides[side]());
      });
      const [plain, latchwork] = [rates.plain.at(-1) ?? 0, rates.latchwork.at(-1) ?? 0];
      say(`B2 ${name}, round ${round + 1}: ${Math.round(latchwork)}/s against ${Math.round(plain)}/s`);
    }
  } finally {
    await relay.stop();
    await bridge.kill('SIGTERM');
    await proxy?.stop();
  }
  return {
    failures,
    measures: [
      { name, unit: 'x plain', perRound: ratiosOf(rates.latchwork, rates.plain), ...(isQuick ? {} : { target }) },
      { name: '  Latchwork', unit: 'reports/s', perRound: rates.latchwork },
      { name: '  plain subscriber', unit: 'reports/s', perRound: rates.plain },
    ],
  };
}

function variant(name: string, deviceCount: number, kind: Kind, oneWayMs: number, atLeast: number): Variant {
  return { name, deviceCount, kind, oneWayMs, target: { atLeast } };
}
