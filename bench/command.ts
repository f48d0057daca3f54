// B3 and B3e: from an HTTP command to the device's report of the new position on the relay. B3 goes through bridge and broker,
// beside the same commands through the broker alone. B3e goes to a direct connection. Each command is accounted for.
import { Agent, request } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectAsync, type IClientOptions, type MqttClient } from 'mqtt';
import type { Activation } from '../rig/clients/accounts.ts';
import { GatewayProcess } from '../rig/services/processes.ts';
import { connectFramed } from './parts/framed-client.ts';
import type { BenchResult, Measure, Target } from './parts/results.ts';
import type { BenchRig } from './parts/rig.ts';
import { ratiosOf, takeTurns, type BenchOptions } from './parts/rounds.ts';
import { percentile } from './parts/statistics.ts';

type Variant = { name: string; parallel: number; commandsEach: number; hasTargets: boolean };
/** Sends a command and resolves when the API has acknowledged it. */
type SendCommand = (device: Activation, position: string) => Promise<void>;
type Times = Record<50 | 99, number[]>;

const variants: Variant[] = [
  { name: 'one after the other', parallel: 1, commandsEach: 300, hasTargets: true },
  // As fast as possible: the times are those of a queue; the rate is the figure.
  { name: '8 at once', parallel: 8, commandsEach: 100, hasTargets: false },
];
const directCommands = 300;
const quickCommands = 20;
/** Commands of each side that are not counted, until the engines have compiled the hot code. */
const warmUpCommands = 150;
const targets: Record<50 | 99, Target> = { 50: { atMost: 4.5 }, 99: { atMost: 8 } };
const percents = [50, 99] as const;
const lostAfterMs = 5_000;
const surplusWithinMs = 300;
const positions = ['up', 'middle', 'down'] as const;
const sides = ['plain', 'latchwork'] as const;
const directSides = ['bridge', 'direct', 'library', 'gateway'] as const;

export const commandDevices = Math.max(...variants.map(({ parallel }) => parallel));
/** A device for each side: commands go to an open direct connection first. */
export const directCommandDevices = directSides.length;

export async function measureCommands(rig: BenchRig, { rounds, isQuick, say }: BenchOptions): Promise<BenchResult> {
  await using bench = await CommandBench.start(rig);
  const measures: Measure[] = [];
  const devices = rig.devices.slice(0, commandDevices);
  const plain = await bench.connect(rig.broker.url, { clientId: 'bench-plain-application' });
  plain.on('message', (topic, payload) => bench.watch.note(topic, JSON.parse(payload.toString())));
  await plain.subscribeAsync('/syx/+/+/thing/event/property/post', { qos: 1 });
  const plainDevices = await Promise.all(
    devices.map(async (device) =>
      PlainDevice.start(device, await bench.connect(rig.broker.url, { clientId: device.deviceId })),
    ),
  );
  const sendPlain: SendCommand = async ({ topics }, position) => {
    const body = { method: 'thing.service.property.set', id: crypto.randomUUID(), params: { position } };
    await plain.publishAsync(onPlainRoot(topics.propertySet), JSON.stringify(body), { qos: 1 });
  };
  const run = async (variant: Variant, side: (typeof sides)[number]): Promise<number[]> => {
    const { name, parallel, commandsEach } = variant;
    const send = side === 'plain' ? sendPlain : bench.sendByHttp;
    const topicOf = ({ topics }: Activation) =>
      side === 'plain' ? onPlainRoot(topics.propertyPost) : topics.propertyPost;
    const timesMs = await Promise.all(
      devices
        .slice(0, parallel)
        .map((device) => bench.sendInTurn(`${name}, ${side}`, device, commandsEach, send, topicOf(device))),
    );
    return timesMs.flat();
  };
  const commandsEach = isQuick ? quickCommands : warmUpCommands;
  const warmUp = { name: 'warm-up', parallel: commandDevices, commandsEach, hasTargets: false };
  for (const side of sides) {
    await run(warmUp, side);
    await bench.account(`warm-up, ${side}`, plainDevices, commandDevices * commandsEach);
  }
  for (const { name, parallel, hasTargets, ...full } of variants) {
    const scaled = { name, parallel, hasTargets, commandsEach: isQuick ? quickCommands : full.commandsEach };
    const count = parallel * scaled.commandsEach;
    const times = { latchwork: noTimes(), plain: noTimes() };
    const ratesPerSecond: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      await takeTurns(sides, round, async (side) => {
        const startedAtMs = performance.now();
        const timesMs = await run(scaled, side);
        if (side === 'latchwork') ratesPerSecond.push((count * 1000) / (performance.now() - startedAtMs));
        for (const percent of percents) times[side][percent].push(percentile(timesMs, percent));
        await bench.account(`${name}, ${side}`, plainDevices, count);
      });
      const [p50, p99] = percents.map((percent) => times.latchwork[percent].at(-1)?.toFixed(1) ?? '');
      say(`B3 ${name}, round ${round + 1}: p50 ${p50 ?? ''} ms, p99 ${p99 ?? ''} ms`);
    }
    for (const percent of percents) {
      const target = hasTargets && !isQuick ? { target: targets[percent] } : {};
      measures.push({ name: `${name}, p${percent}`, unit: 'ms', perRound: times.latchwork[percent], ...target });
    }
    measures.push(...measuresOf('broker alone', times.plain));
    measures.push({ name: '  commands', unit: '/s', perRound: ratesPerSecond });
  }
  return {
    name: 'B3',
    title: 'command round trip: HTTP -> Worker -> bridge -> broker -> device -> its report -> relay',
    settings: [
      'every command moves the switch, its report at QoS 1; all sockets send without delay',
      'broker alone: the command published to the broker, the report read from it, by the same devices',
    ],
    measures,
    failures: bench.failures,
  };
}

export async function measureDirectCommands(
  rig: BenchRig,
  { rounds, isQuick, say }: BenchOptions,
): Promise<BenchResult> {
  await using bench = await CommandBench.start(rig);
  await using gateway = await GatewayProcess.start(rig.worker.url, { LOG_LEVEL: 'info' });
  const urlOf = (side: (typeof directSides)[number], deviceId: string): string => {
    if (side === 'bridge') return rig.broker.url;
    if (side === 'gateway') return `mqtt://127.0.0.1:${gateway.port}`;
    return `${rig.worker.url.replace(/^http/, 'ws')}/mqtt/${deviceId}`;
  };
  const run = async (side: (typeof directSides)[number], count: number): Promise<number[]> => {
    const { device, plain } = devices.get(side) ?? {};
    if (device === undefined || plain === undefined) throw new Error(`no device for ${side}`);
    const timesMs = await bench.sendInTurn(side, device, count, bench.sendByHttp, device.topics.propertyPost);
    await bench.account(side, [plain], count);
    return timesMs;
  };
  const devices = new Map<string, { device: Activation; plain: PlainDevice }>();
  const times = { bridge: noTimes(), direct: noTimes(), library: noTimes(), gateway: noTimes() };
  const count = isQuick ? quickCommands : directCommands;
  for (const [index, side] of directSides.entries()) {
    const device = rig.devices[index];
    if (device === undefined) throw new Error('too few devices');
    const { clientId, username, password } = device.mqtt;
    const open = side === 'direct' ? connectFramed : connectAsync;
    const client = await bench.connect(urlOf(side, device.deviceId), { clientId, username, password }, open);
    devices.set(side, { device, plain: await PlainDevice.start(device, client, { isAlsoPlain: false }) });
  }
  for (const side of directSides) await run(side, isQuick ? quickCommands : warmUpCommands);
  for (let round = 0; round < rounds; round += 1) {
    await takeTurns(directSides, round, async (side) => {
      const timesMs = await run(side, count);
      for (const percent of percents) times[side][percent].push(percentile(timesMs, percent));
    });
    const shown = directSides.map((side) => `${side} p50 ${times[side][50].at(-1)?.toFixed(1)} ms`);
    say(`B3e round ${round + 1}: ${shown.join(', ')}`);
  }
  const shares = percents.map((percent): Measure => ({
    name: `direct, p${percent}`,
    unit: 'x bridge',
    perRound: ratiosOf(times.direct[percent], times.bridge[percent]),
    ...(isQuick ? {} : { target: { atMost: 0.5 } }),
  }));
  return {
    name: 'B3e',
    title: 'command round trip on a direct connection: HTTP -> Worker -> device -> its report -> relay',
    settings: [
      'one after the other; every command moves the switch, its report at QoS 1; mqtt.js as the device',
      'direct: it sends a packet a frame, as firmware does; library: as it is, over WebSocket a frame for each field of a packet',
    ],
    measures: [...shares, ...directSides.flatMap((side) => measuresOf(side, times[side]))],
    failures: bench.failures,
  };
}

function noTimes(): Times {
  return { 50: [], 99: [] };
}

function measuresOf(name: string, times: Times): Measure[] {
  return percents.map((percent) => ({ name: `  ${name}, p${percent}`, unit: 'ms', perRound: times[percent] }));
}

/** The application's side of both benchmarks, with a bridge and every report on the relay. */
class CommandBench {
  readonly watch = new ReportWatch();
  readonly failures: string[] = [];
  readonly #rig: BenchRig;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #parts: { stop: () => Promise<unknown> }[] = [];

  private constructor(rig: BenchRig) {
    this.#rig = rig;
  }

  static async start(rig: BenchRig): Promise<CommandBench> {
    const bench = new CommandBench(rig);
    const bridge = await rig.startBridge();
    const topics = rig.devices.map((device) => device.topics.propertyPost);
    const relay = await rig.follow(topics, (text) => {
      const { topic, payload } = JSON.parse(text) as { topic: string; payload: unknown };
      bench.watch.note(topic, payload);
    });
    bench.#parts.push({ stop: () => bridge.kill('SIGTERM') }, relay);
    return bench;
  }

  async connect(
    url: string,
    login: IClientOptions,
    open: (url: string, options: IClientOptions) => Promise<MqttClient> = connectAsync,
  ): Promise<MqttClient> {
    const client = await open(url, { ...login, protocolVersion: 4, clean: true, reconnectPeriod: 0 });
    if (url.startsWith('mqtt:')) (client.stream as unknown as Socket).setNoDelay(true);
    this.#parts.push({ stop: () => client.endAsync(true) });
    return client;
  }

  readonly sendByHttp: SendCommand = ({ deviceId }, position) => {
    const { url, owner } = this.#rig.worker;
    const body = { action: 'toggle', position };
    return postCommand(this.#agent, `${url}/api/v1/devices/${deviceId}/control`, owner.token, body);
  };

  /** Milliseconds from each command to its report on `topic`. */
  async sendInTurn(
    label: string,
    device: Activation,
    count: number,
    send: SendCommand,
    topic: string,
  ): Promise<number[]> {
    const timesMs: number[] = [];
    for (let sent = 0; sent < count; sent += 1) {
      const position = positions[sent % positions.length] ?? 'up';
      const startedAtMs = performance.now();
      const [atMs] = await Promise.all([this.watch.next(topic, position), send(device, position)]);
      if (atMs === null) this.failures.push(`${label}: a report did not arrive`);
      else timesMs.push(atMs - startedAtMs);
    }
    return timesMs;
  }

  /** Outside the measured time: waits a little for reports that should not come. */
  async account(label: string, devices: readonly PlainDevice[], sent: number): Promise<void> {
    await sleep(surplusWithinMs);
    const heard = devices.reduce((sum, device) => sum + device.takeCount(), 0);
    if (heard !== sent) this.failures.push(`${label}: ${sent} commands sent, devices heard ${heard}`);
    const reports = this.watch.takeCount();
    // A missing report is already in `failures`.
    if (reports > sent) this.failures.push(`${label}: ${sent} commands sent, ${reports} reports came`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const part of this.#parts.toReversed()) await part.stop();
    this.#agent.destroy();
  }
}

/** A device that reports the commanded position at once. */
class PlainDevice {
  #count = 0;

  /** @param isAlsoPlain serves the broker's side of a comparison, too; the direct connection refuses its topics */
  static async start({ topics }: Activation, client: MqttClient, { isAlsoPlain = true } = {}): Promise<PlainDevice> {
    const device = new PlainDevice();
    client.on('message', (topic, payload) => {
      device.#count += 1;
      const { id, params } = JSON.parse(payload.toString()) as { id: string; params: { position: string } };
      const report = { method: 'thing.event.property.post', id, params: { position: params.position, wifi_rssi: -58 } };
      const isPlain = topic !== topics.propertySet;
      const reportTopic = isPlain ? onPlainRoot(topics.propertyPost) : topics.propertyPost;
      client.publish(reportTopic, JSON.stringify(report), { qos: 1 });
    });
    const plainTopics = isAlsoPlain ? [onPlainRoot(topics.propertySet)] : [];
    await client.subscribeAsync([topics.propertySet, ...plainTopics], { qos: 1 });
    return device;
  }

  /** Commands received since the last call. */
  takeCount(): number {
    const count = this.#count;
    this.#count = 0;
    return count;
  }
}

/** Waits for the report that answers a command, and counts them all. A device has one command at a time. */
class ReportWatch {
  #count = 0;
  readonly #waiting = new Map<string, { position: string; finish: (atMs: number | null) => void }>();

  /** When it came, or null when it did not. */
  next(topic: string, position: string): Promise<number | null> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => finish(null), lostAfterMs);
      const finish = (atMs: number | null): void => {
        clearTimeout(timer);
        this.#waiting.delete(topic);
        resolve(atMs);
      };
      this.#waiting.set(topic, { position, finish });
    });
  }

  note(topic: string, payload: unknown): void {
    this.#count += 1;
    const waiting = this.#waiting.get(topic);
    const { params } = payload as { params?: { position?: string } };
    if (waiting !== undefined && params?.position === waiting.position) waiting.finish(performance.now());
  }

  /** Reports received since the last call. */
  takeCount(): number {
    const count = this.#count;
    this.#count = 0;
    return count;
  }
}

/** @throws Error with the answer unless it is `command_sent`. */
function postCommand(agent: Agent, url: string, token: string, body: object): Promise<void> {
  const bytes = Buffer.from(JSON.stringify(body));
  const headers = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    'content-length': bytes.length,
  };
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { method: 'POST', agent, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (text += chunk));
      response.on('error', reject);
      response.on('end', () => {
        if (text.includes('command_sent')) resolve();
        else reject(new Error(`a command was refused: ${text}`));
      });
    });
    outgoing.on('error', reject);
    outgoing.end(bytes);
  });
}

/** The same topic on a root where no bridge listens. */
function onPlainRoot(topic: string): string {
  return topic.replace(/^\/sys\//, '/syx/');
}
