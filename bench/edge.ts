// B2e: reports of devices that are connected to the edge themselves, directly and through the gateway, against the way
// through broker and bridge and against a plain subscriber of the broker. All sides in turns with the same devices; each
// report accounted for.
import type { Activation } from '../rig/clients/accounts.ts';
import { type BridgeProcess, GatewayProcess } from '../rig/services/processes.ts';
import { CpuMeter, readResidentBytes, untilResting } from './parts/cpu-time.ts';
import { subscribePlainly } from './parts/plain-subscriber.ts';
import { brokerLines, deviceLines, Publishers, type Line } from './parts/publishers.ts';
import { Arrivals, makeReports, type Kind } from './parts/reports.ts';
import type { BenchResult, Measure, Target } from './parts/results.ts';
import { showTroubleOf, type BenchRig } from './parts/rig.ts';

type Side = 'plain' | 'bridge' | 'edge' | 'gateway';
type Variant = { name: string; deviceCount: number; kind: Kind; target: Target; maxRounds?: number };

/** Of the way through the bridge in the same run. */
const variants: Variant[] = [
  { name: '10 devices', deviceCount: 10, kind: 'resting', target: { atLeast: 1 } },
  { name: '200 devices', deviceCount: 200, kind: 'resting', target: { atLeast: 1 } },
  // Half a minute a side: their connections, and what D1 has to hear of each.
  { name: '1 000 devices', deviceCount: 1_000, kind: 'resting', target: { atLeast: 1 }, maxRounds: 2 },
  { name: '10 devices, moving', deviceCount: 10, kind: 'moving', target: { atLeast: 0.5 } },
  { name: '200 devices, moving', deviceCount: 200, kind: 'moving', target: { atLeast: 0.5 } },
];
const fullReports = 20_000;
const quickReports = 2_000;
const warmUpRounds = 1;
/** As many reports a second as a few thousand devices send. */
const paced = { perSecond: 200, deviceCount: 10, fullSeconds: 20, quickSeconds: 2, everyMs: 4 };
const pings = { full: 20_000, quick: 1_000, deviceCount: 100 };
const manyDevices = 200;
/** An object without work sleeps after ten seconds. */
const asleepAfterMs = 15_000;

const plainRoot = '/syx/';
const plainFilter = '/syx/+/+/thing/event/property/post';
const sides: readonly Side[] = ['plain', 'bridge', 'edge', 'gateway'];

const others = { paced: `${paced.perSecond} reports/s`, pings: 'PINGREQ', memory: 'memory' };

export const edgeVariants: readonly string[] = [...variants.map(({ name }) => name), ...Object.values(others)];

/** As many as the variant needs: activating a thousand takes as long as most variants. */
export function edgeDevicesOf(variant: string | null): number {
  if (variant === others.paced) return paced.deviceCount;
  if (variant === others.pings) return pings.deviceCount;
  const wanted = variants.filter(({ name }) => variant === null || variant === name || variant === others.memory);
  return Math.max(...wanted.map(({ deviceCount }) => deviceCount));
}

export type EdgeOptions = { rounds: number; isQuick: boolean; only: string | null; say: (line: string) => void };

export async function measureEdge(rig: BenchRig, options: EdgeOptions): Promise<BenchResult> {
  const bench = await EdgeBench.start(rig);
  const { result } = bench;
  try {
    const isWanted = (name: string): boolean => options.only === null || options.only === name;
    for (const one of variants) if (isWanted(one.name)) await bench.measureVariant(one, options);
    if (isWanted(others.paced)) await bench.measurePaced(options);
    if (isWanted(others.pings)) await bench.measurePings(options);
    if (isWanted(others.memory)) await bench.measureMemory(options);
  } finally {
    await bench.stop();
  }
  return result;
}

class EdgeBench {
  readonly #rig: BenchRig;
  readonly #bridge: BridgeProcess;
  readonly #gateway: GatewayProcess;
  readonly result: BenchResult = {
    name: 'B2e',
    title: 'uplink at the edge, QoS 1: device -> Worker -> relay, and device -> gateway -> Worker -> relay',
    settings: [
      'edge: each device has a WebSocket of its own and sends one packet a frame, at most 100 unacknowledged',
      'gateway: each device has a TCP connection of its own to the production gateway',
      'bridge: the same reports over four connections to the broker; plain: a plain subscriber of that broker',
      `each round: ${fullReports.toLocaleString('en').replace(',', ' ')} reports, at most 10 000 of them under way`,
    ],
    measures: [],
    failures: [],
  };

  private constructor(rig: BenchRig, bridge: BridgeProcess, gateway: GatewayProcess) {
    this.#rig = rig;
    this.#bridge = bridge;
    this.#gateway = gateway;
  }

  static async start(rig: BenchRig): Promise<EdgeBench> {
    const environment = { LOG_LEVEL: 'info', MAX_UNAUTHENTICATED_PER_ADDRESS: '5000', MAX_UNAUTHENTICATED: '5000' };
    const gateway = await GatewayProcess.start(rig.worker.url, environment);
    showTroubleOf('gateway', gateway);
    return new EdgeBench(rig, await rig.startBridge(), gateway);
  }

  async stop(): Promise<void> {
    await this.#bridge.kill('SIGTERM');
    await this.#gateway.kill('SIGTERM');
  }

  async measureVariant(variant: Variant, { rounds: wantedRounds, isQuick, say }: EdgeOptions): Promise<void> {
    const { name, deviceCount, kind, target, maxRounds = Infinity } = variant;
    const rounds = Math.min(wantedRounds, maxRounds);
    const devices = this.#rig.devices.slice(0, deviceCount);
    const count = isQuick ? quickReports : fullReports;
    const rates: Record<Side, number[]> = { plain: [], bridge: [], edge: [], gateway: [] };
    const cpu = this.#meters();
    const run = async (side: Side): Promise<number> => {
      const { perSecond, problems } = await this.#send(side, devices, count, kind, cpu[side]);
      if (problems.length > 0) this.result.failures.push(`${name}, ${side}: ${problems.join(', ')}`);
      return perSecond;
    };
    for (let round = 0; round < (isQuick ? 0 : warmUpRounds); round += 1) for (const side of sides) await run(side);
    for (const meter of Object.values(cpu)) meter.reset();
    for (let round = 0; round < rounds; round += 1) {
      // Each side goes first in turn.
      for (const index of sides.keys()) {
        const side = sides[(index + round) % sides.length] ?? 'plain';
        rates[side].push(await run(side));
      }
      const shown = sides.map((side) => `${side} ${Math.round(rates[side].at(-1) ?? 0)}/s`);
      say(`B2e ${name}, round ${round + 1}: ${shown.join(', ')}`);
    }
    const share = (of: Side, against: Side): number[] =>
      rates[of].map((rate, round) => rate / (rates[against][round] ?? Infinity));
    const wanted = isQuick ? {} : { target };
    this.result.measures.push(
      { name, unit: 'x bridge', perRound: share('edge', 'bridge'), ...wanted },
      { name: '  through the gateway', unit: 'x bridge', perRound: share('gateway', 'bridge') },
      { name: '  edge', unit: 'x plain', perRound: share('edge', 'plain') },
      { name: '  through the gateway', unit: 'x plain', perRound: share('gateway', 'plain') },
      ...sides.map((side) => ({ name: `  ${side}`, unit: 'reports/s', perRound: rates[side] })),
      ...this.#cpuMeasures(cpu, 'µs/report'),
    );
  }

  /** At a pace at which nothing waits: what a report costs, all parts of a side together. */
  async measurePaced({ rounds, isQuick, say }: EdgeOptions): Promise<void> {
    const devices = this.#rig.devices.slice(0, paced.deviceCount);
    const spent: Record<Exclude<Side, 'plain'>, number[]> = { bridge: [], edge: [], gateway: [] };
    const seconds = isQuick ? paced.quickSeconds : paced.fullSeconds;
    for (let round = 0; round < rounds; round += 1) {
      for (const side of ['bridge', 'edge', 'gateway'] as const) {
        const meter = this.#meters()[side];
        const { problems } = await this.#send(side, devices, seconds * paced.perSecond, 'resting', meter, paced);
        if (problems.length > 0) this.result.failures.push(`paced, ${side}: ${problems.join(', ')}`);
        spent[side].push(meter.totalPerRound('publishers and relay client').at(-1) ?? 0);
      }
      const shown = Object.entries(spent).map(([side, perRound]) => `${side} ${Math.round(perRound.at(-1) ?? 0)} µs`);
      say(`B2e ${paced.perSecond} reports/s, round ${round + 1}: ${shown.join(', ')}`);
    }
    const share = spent.edge.map((one, round) => one / (spent.bridge[round] ?? 0));
    const name = `processor time at ${paced.perSecond} reports/s`;
    this.result.measures.push(
      { name, unit: 'x bridge', perRound: share, ...(isQuick ? {} : { target: { atMost: 0.5 } }) },
      ...Object.entries(spent).map(([side, perRound]) => ({ name: `  ${side}`, unit: 'µs/report', perRound })),
    );
  }

  /** PINGREQ, one at a time on each connection. */
  async measurePings({ rounds, isQuick }: EdgeOptions): Promise<void> {
    const count = isQuick ? pings.quick : pings.full;
    const perRound: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      const devices = this.#rig.devices.slice(0, pings.deviceCount);
      const lines = this.#linesOf('edge', devices).map((line) => ({ ...line, maxUnacknowledged: 1 }));
      const publishers = await Publishers.connect(lines);
      const meter = new CpuMeter({ Worker: { pid: this.#rig.worker.pid, isGroup: true } });
      publishers.releaseAll();
      await meter.during(count, () => publishers.ping(Math.ceil(count / devices.length)));
      perRound.push(meter.totalPerRound('').at(-1) ?? 0);
      await publishers.stop();
    }
    this.result.measures.push({ name: 'processor time, PINGREQ', unit: 'µs/ping', perRound });
  }

  /** Resident memory of the Worker's process with every device connected and asleep, less that before. */
  async measureMemory({ isQuick, say }: EdgeOptions): Promise<void> {
    const { worker, devices } = this.#rig;
    const chosen = isQuick ? devices.slice(0, 100) : devices;
    const process = { pid: worker.pid, isGroup: true };
    await untilResting(process);
    await new Promise((resolve) => setTimeout(resolve, asleepAfterMs));
    const before = readResidentBytes(process);
    const publishers = await Publishers.connect(this.#linesOf('edge', chosen));
    const awake = readResidentBytes(process);
    await new Promise((resolve) => setTimeout(resolve, asleepAfterMs));
    const asleep = readResidentBytes(process);
    await publishers.stop();
    const perDevice = (bytes: number): number => (bytes - before) / chosen.length / 1024;
    say(`B2e memory: ${chosen.length} connected, ${Math.round((asleep - before) / 2 ** 20)} MiB more`);
    this.result.measures.push(
      { name: `memory of a connected device (of ${chosen.length}), awake`, unit: 'KiB', perRound: [perDevice(awake)] },
      { name: '  asleep', unit: 'KiB', perRound: [perDevice(asleep)] },
    );
  }

  async #send(
    side: Side,
    devices: readonly Activation[],
    count: number,
    kind: Kind,
    meter: CpuMeter,
    pace?: { perSecond: number; everyMs: number },
  ): Promise<{ perSecond: number; problems: string[] }> {
    const { broker, worker } = this.#rig;
    const reports = makeReports(devices, count, kind, side === 'plain' ? plainRoot : '/sys/');
    let arrivals = new Arrivals(0);
    // The end of as many connections is work, which the next ones would wait behind.
    if (devices.length > manyDevices) await untilResting({ pid: worker.pid, isGroup: true });
    const publishers = await Publishers.connect(this.#linesOf(side, devices));
    const onText = (text: string): void => {
      arrivals.add(text);
      publishers.noteArrival();
    };
    const reader =
      side === 'plain'
        ? await subscribePlainly(broker.url, plainFilter, onText)
        : await this.#rig.follow(
            devices.map(({ topics }) => topics.propertyPost),
            onText,
          );
    try {
      // What a connection or a first report causes is over before anything is counted.
      await untilResting({ pid: worker.pid, isGroup: true });
      arrivals = new Arrivals(count);
      const startedAtMs = performance.now();
      const publish = async (): Promise<void> => {
        if (pace === undefined) return publishers.publish(publishers.prepare(reports));
        await publishers.publishPaced(reports, pace);
      };
      const arrivedAtMs = await meter.during(count, async () => {
        const published = publish();
        const atMs = await arrivals.untilComplete();
        publishers.releaseAll();
        await published;
        return atMs;
      });
      const perSecond = arrivedAtMs === null ? 0 : (count * 1000) / (arrivedAtMs - startedAtMs);
      return { perSecond, problems: arrivals.check(reports) };
    } finally {
      await publishers.stop();
      await reader.stop();
    }
  }

  #linesOf(side: Side, devices: readonly Activation[]): Line[] {
    const { broker, worker } = this.#rig;
    if (side === 'edge') {
      return deviceLines(devices, ({ deviceId }) => `${worker.url.replace(/^http/, 'ws')}/mqtt/${deviceId}`);
    }
    if (side === 'gateway') return deviceLines(devices, () => `tcp://127.0.0.1:${this.#gateway.port}`);
    return brokerLines(broker.port);
  }

  #meters(): Record<Side, CpuMeter> {
    const { broker, worker } = this.#rig;
    const own = { 'publishers and relay client': { pid: process.pid, isGroup: false } };
    const Worker = { pid: worker.pid, isGroup: true };
    const atBroker = { broker: { pid: broker.pid, isGroup: false } };
    return {
      plain: new CpuMeter({ ...own, ...atBroker }),
      bridge: new CpuMeter({ ...own, ...atBroker, bridge: { pid: this.#bridge.pid, isGroup: false }, Worker }),
      edge: new CpuMeter({ ...own, Worker }),
      gateway: new CpuMeter({ ...own, gateway: { pid: this.#gateway.pid, isGroup: false }, Worker }),
    };
  }

  #cpuMeasures(cpu: Record<Side, CpuMeter>, unit: string): Measure[] {
    return sides.flatMap((side) =>
      cpu[side].measures(unit).map((measure) => ({ ...measure, name: `${measure.name} (${side})` })),
    );
  }
}
