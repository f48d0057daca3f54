// B4: one report to a thousand sockets through broker, bridge, Worker and relay. It is compared with mosquitto's own
// WebSocket listener and a partyserver room in the same workerd. Every socket has to get every message once, in order.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { connectAsync } from 'mqtt';
import { generate } from 'mqtt-packet';
import { WebSocket } from 'ws';
import { findFreePort } from '../rig/ports.ts';
import type { Round, RoundOutcome, Subscribers, ThreadData } from './parts/fan-out-thread.ts';
import { makeNeighbour } from './parts/neighbours.ts';
import { makeReports, textOf } from './parts/reports.ts';
import type { BenchResult, Measure } from './parts/results.ts';
import { BenchRig } from './parts/rig.ts';
import {
  compareSides,
  measuresOf,
  perSecondText,
  ratiosOf,
  type Benchmark,
  type BenchOptions,
} from './parts/rounds.ts';

type Side = 'service' | 'mosquitto' | 'partyserver';
type Message = { publish: () => unknown; frame: Uint8Array };

const socketCount = 1_000;
const quickSockets = 100;
const threads = 2;
const reportCount = 200;
const room = '/parties/room/bench';
const mqttSession = { protocolId: 'MQTT', protocolVersion: 4, clean: true, keepalive: 0 } as const;
const delivery = { qos: 0, dup: false, retain: false } as const;

/** One client has a thousand sockets here, on one shard. */
const limits = [
  'relaySocketsPerUser=30000',
  'relaySocketsPerAddress=30000',
  'relaySocketsPerShard=30000',
  'relayUnreadBytesPerSocket=16777216',
];

export const fanOut: Benchmark = { name: 'B4', variants: [], measure };

async function measure(options: BenchOptions): Promise<BenchResult> {
  const sockets = options.isQuick ? quickSockets : socketCount;
  const party = await makeNeighbour('party', { Room: 'Room' });
  const listenerPort = await findFreePort();
  const brokerConfig = `listener ${listenerPort}\nprotocol websockets`;
  const rig = await options.keep(BenchRig.start({ deviceCount: 1, limits, neighbours: [party], brokerConfig }));
  const [device] = rig.devices;
  if (device === undefined) throw new Error('B4 needs a device');
  await rig.startBridge();
  const result: BenchResult = {
    title: `fan-out: ${reportCount} reports to each of ${sockets} sockets`,
    settings: [
      'service: device -> broker -> bridge -> Worker -> relay, QoS 1; mosquitto: device -> broker -> its WebSocket listener',
      'partyserver: a room with hibernation, one of its sockets sends',
      'every side: all sockets are of one process, which reads with two threads',
    ],
    measures: [],
    failures: [],
  };
  const publisher = await connectAsync(rig.broker.url, { clientId: 'bench-fan-out', protocolVersion: 4 });
  const plainTopic = device.topics.propertyPost.replace(/^\/sys\//, '/syx/');
  const sender = new WebSocket(`ws://127.0.0.1:${party.port}${room}`, { perMessageDeflate: false });
  await once(sender, 'open');
  const subscribers: Record<Side, Subscribers> = {
    service: {
      port: rig.worker.port,
      path: '/mqtt',
      subProtocol: null,
      hellos: [
        { text: JSON.stringify({ action: 'auth', token: rig.worker.owner.token }) },
        { text: JSON.stringify({ action: 'subscribe', topic: device.topics.propertyPost }) },
      ],
    },
    mosquitto: {
      port: listenerPort,
      path: '/mqtt',
      subProtocol: 'mqtt',
      hellos: [
        { bytes: generate({ cmd: 'connect', ...mqttSession, clientId: '' }) },
        {
          bytes: generate({
            cmd: 'subscribe',
            ...delivery,
            messageId: 1,
            subscriptions: [{ topic: plainTopic, qos: 0 }],
          }),
        },
      ],
    },
    partyserver: { port: party.port, path: room, subProtocol: null, hellos: [] },
  };
  const messagesOf = (side: Side): Message[] =>
    makeReports([device], reportCount, 'resting', '/sys/').map(({ topic, payload }) => {
      if (side === 'partyserver') {
        const publish = (): void => sender.send(payload);
        return { publish, frame: Buffer.from(payload) };
      }
      const to = side === 'service' ? topic : plainTopic;
      const publish = () => publisher.publishAsync(to, payload, { qos: 1 });
      if (side === 'service') return { publish, frame: Buffer.from(textOf(topic, payload)) };
      return { publish, frame: generate({ cmd: 'publish', ...delivery, topic: to, payload }) };
    });

  const crowds: Record<Side, Crowd> = {
    service: await Crowd.open(subscribers.service, sockets),
    mosquitto: await Crowd.open(subscribers.mosquitto, sockets),
    partyserver: await Crowd.open(subscribers.partyserver, sockets),
  };
  const run = async (side: Side): Promise<number> => {
    const { tookMs, problems } = await crowds[side].take(messagesOf(side));
    result.failures.push(...problems.map((problem) => `${side}: ${problem}`));
    return tookMs === null ? 0 : (sockets * reportCount * 1000) / tookMs;
  };
  const rates = await compareSides('B4', ['service', 'mosquitto', 'partyserver'], options, run, perSecondText);
  const against = (side: Side, atLeast: number): Measure => ({
    name: `against ${side}`,
    unit: `x ${side}`,
    perRound: ratiosOf(rates.service, rates[side]),
    target: { atLeast },
  });
  result.measures.push(against('mosquitto', 1), against('partyserver', 2), ...measuresOf(rates, 'deliveries/s'));
  for (const crowd of Object.values(crowds)) await crowd.close();
  sender.close();
  await publisher.endAsync();
  return result;
}

/** The subscribers of one side, in threads of their own. */
class Crowd {
  readonly #threads: Worker[];

  constructor(workers: Worker[]) {
    this.#threads = workers;
  }

  static async open(subscribers: Subscribers, sockets: number): Promise<Crowd> {
    const workers = Array.from({ length: threads }, () => {
      const workerData: ThreadData = { ...subscribers, count: sockets / threads };
      return new Worker(new URL('parts/fan-out-thread.ts', import.meta.url), { workerData });
    });
    await Promise.all(workers.map((worker) => once(worker, 'message')));
    return new Crowd(workers);
  }

  async take(messages: Message[]): Promise<{ tookMs: number | null; problems: string[] }> {
    const round: Round = { expected: messages.map(({ frame }) => frame) };
    await Promise.all(
      this.#threads.map(async (worker) => {
        worker.postMessage(round);
        await once(worker, 'message');
      }),
    );
    const ends = this.#threads.map(async (worker) => ((await once(worker, 'message')) as [RoundOutcome])[0]);
    const startedAtMs = performance.timeOrigin + performance.now();
    const publishing = Promise.all(messages.map(({ publish }) => publish()));
    const outcomes = await Promise.all(ends);
    await publishing;
    const problems = outcomes.flatMap((outcome) => outcome.problems);
    const completeAtMs = outcomes.map((outcome) => outcome.completeAtMs ?? Number.NaN);
    const tookMs = Math.max(...completeAtMs) - startedAtMs;
    return { tookMs: Number.isNaN(tookMs) ? null : tookMs, problems };
  }

  async close(): Promise<void> {
    await Promise.all(this.#threads.map((worker) => worker.terminate()));
  }
}
