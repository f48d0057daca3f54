// B2e: reports of directly connected devices, without and with the gateway. They are compared with the way through broker
// and bridge and with a plain subscriber of the broker. All sides take turns with the same devices; each report is
// accounted for.
import type { Activation } from '../rig/clients/accounts.ts';
import { type BridgeProcess, GatewayProcess } from '../rig/services/processes.ts';
import { readCpuMicroseconds, readResidentBytes, untilResting, type Process } from './parts/cpu-time.ts';
import { subscribePlainly } from './parts/plain-subscriber.ts';
import { brokerLines, deviceLines, Publishers, type Line } from './parts/publishers.ts';
import { Arrivals, makeReports, type Kind } from './parts/reports.ts';
import type { BenchResult, Target } from './parts/results.ts';
import { showTroubleOf, type BenchRig } from './parts/rig.ts';
import { ratiosOf, takeTurns, type BenchOptions } from './parts/rounds.ts';

type Side = 'plain' | 'bridge' | 'direct' | 'gateway';
type Variant = { name: string; deviceCount: number; kind: Kind; target: Target; maxRounds?: number };

/** Targets are shares of the bridge's rate in the same run. */
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
const sides: readonly Side[] = ['plain', 'bridge', 'direct', 'gateway'];

const others = { paced: `${paced.perSecond} reports/s`, pings: 'PINGREQ', memory: 'memory' };

export const directVariants: readonly string[] = [...variants.map(({ name }) => name), ...Object.values(others)];

/** As many devices as the variant needs: activating a thousand takes as long as most variants. */
export function directDevicesOf(variant: string | null): number {
  if (variant === others.paced) return paced.deviceCount;
  if (variant === others.pings) return pings.deviceCount;
  const wanted = variants.filter(({ name }) => variant === null || variant === name || variant === others.memory);
  return Math.max(...wanted.map(({ deviceCount }) => deviceCount));
}

export async function measureDirect(rig: BenchRig, options: BenchOptions): Promise<BenchResult> {
  await using bench = await DirectBench.start(rig);
  const { result } = bench;
  const isWanted = (name: string): boolean => options.variant === null || options.variant === name;
  for (const variant of variants) if (isWanted(variant.name)) await bench.measureVariant(variant, options);
  if (isWanted(others.paced)) await bench.measurePaced(options);
  if (isWanted(others.pings)) await bench.measurePings(options);
  if (isWanted(others.memory)) await bench.measureMemory(options);
  return result;
}

class DirectBench {
  readonly #rig: BenchRig;
  readonly #bridge: BridgeProcess;
  readonly #gateway: GatewayProcess;
  readonly result: BenchResult = {
    name: 'B2e',
    title: 'uplink on a direct connection, QoS 1: device -> Worker -> relay, and device -> gateway -> Worker -> relay',
    settings: [
      'direct: each device has a WebSocket of its own and sends one packet a frame, at most 100 unacknowledged',
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

  static async start(rig: BenchRig): Promise<DirectBench> {
    const environment = { LOG_LEVEL: 'info', MAX_UNAUTHENTICATED_PER_ADDRESS: '5000', MAX_UNAUTHENTICATED: '5000' };
    const gateway = await GatewayProcess.start(rig.worker.url, environment);
    showTroubleOf('gateway', gateway);
    return new DirectBench(rig, await rig.startBridge(), gateway);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#bridge.kill('SIGTERM');
    await this.#gateway.kill('SIGTERM');
  }

  async measureVariant(variant: Variant, { rounds: wantedRounds, isQuick, say }: BenchOptions): Promise<void> {
    const { name, deviceCount, kind, target, maxRounds = Infinity } = variant;
    const rounds = Math.min(wantedRounds, maxRounds);
    const devices = this.#rig.devices.slice(0, deviceCount);
    const count = isQuick ? quickReports : fullReports;
    const rates: Record<Side, number[]> = { plain: [], bridge: [], direct: [], gateway: [] };
    const run = async (side: Side): Promise<number> => {
      const { perSecond, problems } = await this.#send(side, devices, count, kind);
      if (problems.length > 0) this.result.failures.push(`${name}, ${side}: ${problems.join(', ')}`);
      return perSecond;
    };
    for (let round = 0; round < (isQuick ? 0 : warmUpRounds); round += 1) for (const side of sides) await run(side);
    for (let round = 0; round < rounds; round += 1) {
      await takeTurns(sides, round, async (side) => {
        rates[side].push(await run(side));
      });
      const shown = sides.map((side) => `${side} ${Math.round(rates[side].at(-1) ?? 0)}/s`);
      say(`B2e ${name}, round ${round + 1}: ${shown.join(', ')}`);
    }
    const wanted = isQuick ? {} : { target };
    this.result.measures.push(
      { name, unit: 'x bridge', perRound: ratiosOf(rates.direct, rates.bridge), ...wanted },
      { name: '  through the gateway', unit: 'x bridge', perRound: ratiosOf(rates.gateway, rates.bridge) },
      { name: '  direct', unit: 'x plain', perRound: ratiosOf(rates.direct, rates.plain) },
      { name: '  through the gateway', unit: 'x plain', perRound: ratiosOf(rates.gateway, rates.plain) },
      ...sides.map((side) => ({ name: `  ${side}`, unit: 'reports/s', perRound: rates[side] })),
    );
  }

  /** At a pace at which nothing waits: what a report costs, all parts of a side together. */
  async measurePaced({ rounds, isQuick, say }: BenchOptions): Promise<void> {
    const devices = this.#rig.devices.slice(0, paced.deviceCount);
    const spent: Record<Exclude<Side, 'plain'>, number[]> = { bridge: [], direct: [], gateway: [] };
    const seconds = isQuick ? paced.quickSeconds : paced.fullSeconds;
    for (let round = 0; round < rounds; round += 1) {
      for (const side of ['bridge', 'direct', 'gateway'] as const) {
        const count = seconds * paced.perSecond;
        const { problems, cpuMicroseconds } = await this.#send(side, devices, count, 'resting', paced);
        if (problems.length > 0) this.result.failures.push(`paced, ${side}: ${problems.join(', ')}`);
        spent[side].push(cpuMicroseconds / count);
      }
      const shown = Object.entries(spent).map(([side, perRound]) => `${side} ${Math.round(perRound.at(-1) ?? 0)} µs`);
      say(`B2e ${paced.perSecond} reports/s, round ${round + 1}: ${shown.join(', ')}`);
    }
    const name = `processor time at ${paced.perSecond} reports/s`;
    this.result.measures.push(
      {
        name,
        unit: 'x bridge',
        perRound: ratiosOf(spent.direct, spent.bridge),
        ...(isQuick ? {} : { target: { atMost: 0.5 } }),
      },
      ...Object.entries(spent).map(([side, perRound]) => ({ name: `  ${side}`, unit: 'µs/report', perRound })),
    );
  }

  /** PINGREQ, one at a time on each connection. */
  async measurePings({ rounds, isQuick }: BenchOptions): Promise<void> {
    const count = isQuick ? pings.quick : pings.full;
    const perRound: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      const devices = this.#rig.devices.slice(0, pings.deviceCount);
      const lines = this.#linesOf('direct', devices).map((line) => ({ ...line, maxUnacknowledged: 1 }));
      const publishers = await Publishers.connect(lines);
      const worker = [{ pid: this.#rig.worker.pid, isGroup: true }];
      const cpuBefore = readCpuMicroseconds(worker);
      publishers.releaseAll();
      await publishers.ping(Math.ceil(count / devices.length));
      perRound.push((readCpuMicroseconds(worker) - cpuBefore) / count);
      await publishers.stop();
    }
    this.result.measures.push({ name: 'processor time, PINGREQ', unit: 'µs/ping', perRound });
  }

  /** Resident memory of the Worker's process with every device connected and asleep, less that before. */
  async measureMemory({ isQuick, say }: BenchOptions): Promise<void> {
    const { worker, devices } = this.#rig;
    const chosen = isQuick ? devices.slice(0, 100) : devices;
    const process = { pid: worker.pid, isGroup: true };
    await untilResting(process);
    await new Promise((resolve) => setTimeout(resolve, asleepAfterMs));
    const before = readResidentBytes(process);
    const publishers = await Publishers.connect(this.#linesOf('direct', chosen));
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
    pace?: { perSecond: number; everyMs: number },
  ): Promise<{ perSecond: number; cpuMicroseconds: number; problems: string[] }> {
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
      const processes = this.#processesOf(side);
      const cpuBefore = readCpuMicroseconds(processes);
      const published =
        pace === undefined ? publishers.publish(publishers.prepare(reports)) : publishers.publishPaced(reports, pace);
      const arrivedAtMs = await arrivals.untilComplete();
      publishers.releaseAll();
      await published;
      const cpuMicroseconds = readCpuMicroseconds(processes) - cpuBefore;
      const perSecond = arrivedAtMs === null ? 0 : (count * 1000) / (arrivedAtMs - startedAtMs);
      return { perSecond, cpuMicroseconds, problems: arrivals.check(reports) };
    } finally {
      await publishers.stop();
      await reader.stop();
    }
  }

  #linesOf(side: Side, devices: readonly Activation[]): Line[] {
    const { broker, worker } = this.#rig;
    if (side === 'direct') {
      return deviceLines(devices, ({ deviceId }) => `${worker.url.replace(/^http/, 'ws')}/mqtt/${deviceId}`);
    }
    if (side === 'gateway') return deviceLines(devices, () => `tcp://127.0.0.1:${this.#gateway.port}`);
    return brokerLines(broker.port);
  }

  #processesOf(side: Side): Process[] {
    const { broker, worker } = this.#rig;
    const services: Record<Side, { pid: number }[]> = {
      plain: [broker],
      bridge: [broker, this.#bridge],
      direct: [],
      gateway: [this.#gateway],
    };
    return [{ pid: worker.pid, isGroup: true }, ...services[side].map(({ pid }) => ({ pid, isGroup: false }))];
  }
}
