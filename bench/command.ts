// B3: from an HTTP command to the device's report of the new position on the relay, sequentially and in parallel; beside
// it the same way through the broker alone. Each command is accounted for.
import { Agent, request } from 'node:http';
import type { Socket } from 'node:net';
import { connectAsync, type MqttClient } from 'mqtt';
import { CpuMeter } from './parts/cpu-time.ts';
import type { Activation } from '../rig/clients/accounts.ts';
import type { BenchResult, Measure, Target } from './parts/results.ts';
import type { BenchRig } from './parts/rig.ts';
import { percentile } from './parts/statistics.ts';

type Variant = { name: string; parallel: number; commandsEach: number; hasTargets: boolean };
/** Sends one command and resolves when it is acknowledged to the sender. */
type SendCommand = (deviceIndex: number, position: string) => Promise<void>;

const variants: Variant[] = [
  { name: 'one after the other', parallel: 1, commandsEach: 300, hasTargets: true },
  // As fast as possible: the times are those of a queue; the rate is the figure.
  { name: '8 at once', parallel: 8, commandsEach: 100, hasTargets: false },
];
const quickCommandsEach = 20;
/** Commands of each side that are not counted, until the engines have compiled the hot code. */
const warmUpCommandsEach = 150;
const targets: Record<50 | 99, Target> = { 50: { atMost: 4.5 }, 99: { atMost: 8 } };
const lostAfterMs = 5_000;
const surplusWithinMs = 300;
const positions = ['up', 'middle', 'down'] as const;

export const commandDevices = Math.max(...variants.map(({ parallel }) => parallel));

export type CommandOptions = { rounds: number; isQuick: boolean; say: (line: string) => void };

export async function measureCommands(rig: BenchRig, { rounds, isQuick, say }: CommandOptions): Promise<BenchResult> {
  const { broker, worker } = rig;
  const devices = rig.devices.slice(0, commandDevices);
  const watch = new ReportWatch();
  const bridge = await rig.startBridge();
  const agent = new Agent({ keepAlive: true });
  const clients: MqttClient[] = [];
  const connect = async (clientId: string): Promise<MqttClient> => {
    const client = await connectAsync(broker.url, { clientId, protocolVersion: 4, clean: true, reconnectPeriod: 0 });
    (client.stream as unknown as Socket).setNoDelay(true);
    clients.push(client);
    return client;
  };
  const plainDevices = await Promise.all(devices.map((device) => PlainDevice.start(device, connect)));
  const relay = await rig.follow(
    devices.map(({ topics }) => topics.propertyPost),
    (text) => {
      const { topic, payload } = JSON.parse(text) as { topic: string; payload: unknown };
      watch.note(topic, payload);
    },
  );
  const plain = await connect('bench-plain-application');
  plain.on('message', (topic, payload) => watch.note(topic, JSON.parse(payload.toString())));
  await plain.subscribeAsync('/syx/+/+/thing/event/property/post', { qos: 1 });

  const sides: Record<'latchwork' | 'plain', SendCommand> = {
    latchwork: (deviceIndex, position) =>
      postCommand(
        agent,
        `${worker.url}/api/v1/devices/${devices[deviceIndex]?.deviceId ?? ''}/control`,
        worker.owner.token,
        {
          action: 'toggle',
          position,
        },
      ),
    plain: async (deviceIndex, position) => {
      const body = { method: 'thing.service.property.set', id: crypto.randomUUID(), params: { position } };
      const topic = onPlainRoot(devices[deviceIndex]?.topics.propertySet ?? '');
      await plain.publishAsync(topic, JSON.stringify(body), { qos: 1 });
    },
  };
  const failures: string[] = [];
  const measures: Measure[] = [];
  const run = async ({ name, parallel, commandsEach }: Variant, side: keyof typeof sides): Promise<number[]> => {
    const lanes = await Promise.all(
      Array.from({ length: parallel }, async (_, deviceIndex) => {
        const timesMs: number[] = [];
        const reportTopic = devices[deviceIndex]?.topics.propertyPost ?? '';
        const topic = side === 'plain' ? onPlainRoot(reportTopic) : reportTopic;
        for (let n = 0; n < commandsEach; n += 1) {
          const position = positions[n % positions.length] ?? 'up';
          const startedAtMs = performance.now();
          const seen = watch.next(topic, position);
          await Promise.all([
            sides[side](deviceIndex, position),
            seen.then((atMs) => {
              if (atMs !== null) timesMs.push(atMs - startedAtMs);
              else failures.push(`${name}, ${side}: a report did not arrive`);
            }),
          ]);
        }
        return timesMs;
      }),
    );
    return lanes.flat();
  };
  /** Outside the measured time: waits a little for reports that should not come. */
  const account = async ({ name, parallel, commandsEach }: Variant, side: keyof typeof sides): Promise<void> => {
    await new Promise((resolve) => setTimeout(resolve, surplusWithinMs));
    const sent = parallel * commandsEach;
    const heard = plainDevices.reduce((sum, device) => sum + device.takeCount(), 0);
    if (heard !== sent) failures.push(`${name}, ${side}: ${sent} commands sent, devices heard ${heard}`);
    const reports = watch.takeCount();
    // A missing one is already in `failures`.
    if (reports > sent) failures.push(`${name}, ${side}: ${sent} commands sent, ${reports} reports came`);
  };

  try {
    const warmUpCommands = isQuick ? quickCommandsEach : warmUpCommandsEach;
    const warmUp = { name: 'warm-up', parallel: commandDevices, commandsEach: warmUpCommands, hasTargets: false };
    for (const side of ['plain', 'latchwork'] as const) {
      await run(warmUp, side);
      await account(warmUp, side);
    }
    for (const variant of variants) {
      const scaled = isQuick ? { ...variant, commandsEach: quickCommandsEach } : variant;
      const perRound = { latchwork: { 50: [], 99: [] }, plain: { 50: [], 99: [] } } as Record<
        keyof typeof sides,
        Record<50 | 99, number[]>
      >;
      const ratesPerSecond: number[] = [];
      const cpu = new CpuMeter({
        broker: { pid: broker.pid, isGroup: false },
        bridge: { pid: bridge.pid, isGroup: false },
        Worker: { pid: worker.pid, isGroup: true },
        'application and devices': { pid: process.pid, isGroup: false },
      });
      for (let round = 0; round < rounds; round += 1) {
        for (const side of round % 2 === 0 ? (['plain', 'latchwork'] as const) : (['latchwork', 'plain'] as const)) {
          const measured = (): Promise<number[]> => run(scaled, side);
          const count = scaled.parallel * scaled.commandsEach;
          const startedAtMs = performance.now();
          const timesMs = await (side === 'latchwork' ? cpu.during(count, measured) : measured());
          if (side === 'latchwork') ratesPerSecond.push((count * 1000) / (performance.now() - startedAtMs));
          for (const percent of [50, 99] as const) perRound[side][percent].push(percentile(timesMs, percent));
          await account(scaled, side);
        }
        const [p50, p99] = ([50, 99] as const).map((percent) => perRound.latchwork[percent].at(-1)?.toFixed(1) ?? '');
        say(`B3 ${variant.name}, round ${round + 1}: p50 ${p50 ?? ''} ms, p99 ${p99 ?? ''} ms`);
      }
      for (const side of ['latchwork', 'plain'] as const) {
        for (const percent of [50, 99] as const) {
          const name = side === 'latchwork' ? variant.name : '  broker alone';
          const isJudged = side === 'latchwork' && variant.hasTargets && !isQuick;
          const target = isJudged ? { target: targets[percent] } : {};
          measures.push({ name: `${name}, p${percent}`, unit: 'ms', perRound: perRound[side][percent], ...target });
        }
      }
      measures.push({ name: '  commands', unit: '/s', perRound: ratesPerSecond }, ...cpu.measures('µs/command'));
    }
  } finally {
    await relay.stop();
    for (const client of clients) await client.endAsync();
    agent.destroy();
    await bridge.kill('SIGTERM');
  }
  return {
    name: 'B3',
    title: 'command round trip: HTTP -> Worker -> bridge -> broker -> device -> its report -> relay',
    settings: [
      'every command moves the switch, its report at QoS 1; all sockets send without delay',
      'broker alone: the command published to the broker, the report read from it, by the same devices',
    ],
    measures,
    failures,
  };
}

/** A device as far as a command needs one: reports the commanded position at once. */
export class PlainDevice {
  #count = 0;

  /** @param isAlsoPlain serves the broker's side of a comparison, too; the edge refuses its topics */
  static async start(
    { deviceId, topics }: Activation,
    connect: (clientId: string) => Promise<MqttClient>,
    { isAlsoPlain = true } = {},
  ): Promise<PlainDevice> {
    const device = new PlainDevice();
    const client = await connect(deviceId);
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
export class ReportWatch {
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
export function postCommand(agent: Agent, url: string, token: string, body: object): Promise<void> {
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

/** The same topic where no bridge listens. */
function onPlainRoot(topic: string): string {
  return topic.replace(/^\/sys\//, '/syx/');
}
