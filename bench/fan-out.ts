// B4: one report to a thousand sockets through broker, bridge, Worker and relay. It is compared with mosquitto's own
// WebSocket listener and a partyserver room in the same workerd. Every socket has to get every message once, in order.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { connectAsync } from 'mqtt';
import { generate } from 'mqtt-packet';
import { WebSocket } from 'ws';
import { findFreePort } from '../rig/ports.ts';
import type { Round, RoundOutcome, Subscribers } from './parts/fan-out-thread.ts';
import { makeNeighbour, partyMissing } from './parts/neighbours.ts';
import { makeReports, textOf } from './parts/reports.ts';
import type { BenchResult, Measure } from './parts/results.ts';
import { BenchRig } from './parts/rig.ts';
import { ratiosOf, takeTurns, type BenchOptions } from './parts/rounds.ts';

type Side = 'service' | 'mosquitto' | 'party';
type Message = { publish: () => Promise<unknown>; frame: Uint8Array };

const socketCount = 1_000;
const quickSockets = 100;
const threads = 2;
const reportCount = 200;
const warmUpRounds = 1;
const room = '/parties/room/bench';

/** One client has a thousand sockets here, on one shard. */
const limits = [
  'relaySocketsPerUser=30000',
  'relaySocketsPerAddress=30000',
  'relaySocketsPerShard=30000',
  'relayUnreadBytesPerSocket=16777216',
];

export type FanOutRig = { rig: BenchRig; listenerPort: number; stop: () => Promise<void> };

export async function startFanOut(): Promise<FanOutRig> {
  const listenerPort = await findFreePort();
  const neighbours = partyMissing === null ? [await makeNeighbour('party', { Room: 'Room' })] : [];
  const brokerConfig = `listener ${listenerPort}\nprotocol websockets`;
  const rig = await BenchRig.start({ deviceCount: 1, limits, neighbours, brokerConfig });
  return { rig, listenerPort, stop: () => rig.stop() };
}

export async function measureFanOut({ rig, listenerPort }: FanOutRig, options: BenchOptions): Promise<BenchResult> {
  const { rounds, isQuick, say } = options;
  const sockets = isQuick ? quickSockets : socketCount;
  const [device] = rig.devices;
  if (device === undefined) throw new Error('B4 needs a device');
  const bridge = await rig.startBridge();
  const result: BenchResult = {
    name: 'B4',
    title: `fan-out: ${reportCount} reports to each of ${sockets} sockets`,
    settings: [
      'service: device -> broker -> bridge -> Worker -> relay, QoS 1; mosquitto: device -> broker -> its WebSocket listener',
      'partyserver: a room with hibernation, one of its sockets sends',
      partyMissing ?? 'every side: all sockets are of one process, which reads with two threads',
    ],
    measures: [],
    failures: [],
  };
  const publisher = await connectAsync(rig.broker.url, { clientId: 'bench-fan-out', protocolVersion: 4 });
  const plainTopic = device.topics.propertyPost.replace(/^\/sys\//, '/syx/');
  const party = rig.worker.neighbours[0];
  const sender = party === undefined ? undefined : await openSocket(`ws://127.0.0.1:${party.port}${room}`);
  const subscribers: Record<Side, Omit<Subscribers, 'count'>> = {
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
        {
          bytes: generate({
            cmd: 'connect',
            protocolId: 'MQTT',
            protocolVersion: 4,
            clean: true,
            keepalive: 0,
            clientId: '',
          }),
        },
        {
          bytes: generate({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: plainTopic, qos: 0 }] } as never),
        },
      ],
    },
    party: { port: party?.port ?? 0, path: room, subProtocol: null, hellos: [] },
  };
  const messagesOf = (side: Side): Message[] =>
    makeReports([device], reportCount, 'resting', '/sys/').map(({ topic, payload }) => {
      if (side === 'party') {
        return { frame: Buffer.from(payload), publish: () => Promise.resolve(sender?.send(payload)) };
      }
      const to = side === 'service' ? topic : plainTopic;
      const publish = () => publisher.publishAsync(to, payload, { qos: 1 });
      if (side === 'service') return { publish, frame: Buffer.from(textOf(topic, payload)) };
      return { publish, frame: generate({ cmd: 'publish', topic: to, payload, qos: 0, dup: false, retain: false }) };
    });

  const sides: Side[] = ['service', 'mosquitto', ...(party === undefined ? [] : ['party' as const])];
  const crowds = new Map<Side, Crowd>();
  const rates: Record<Side, number[]> = { service: [], mosquitto: [], party: [] };
  try {
    for (const side of sides) crowds.set(side, await Crowd.open(subscribers[side], sockets));
    const run = async (side: Side): Promise<number> => {
      const messages = messagesOf(side);
      const { tookMs, problems } = await (crowds.get(side) ?? new Crowd([])).take(messages);
      if (problems.length > 0) result.failures.push(`${side}: ${problems.join(', ')}`);
      return tookMs === null ? 0 : (sockets * reportCount * 1000) / tookMs;
    };
    for (let round = 0; round < (isQuick ? 0 : warmUpRounds); round += 1) for (const side of sides) await run(side);
    for (let round = 0; round < rounds; round += 1) {
      await takeTurns(sides, round, async (side) => {
        rates[side].push(await run(side));
      });
      const shown = sides.map((side) => `${side} ${Math.round(rates[side].at(-1) ?? 0)}/s`);
      say(`B4 round ${round + 1}: ${shown.join(', ')}`);
    }
  } finally {
    for (const crowd of crowds.values()) await crowd.close();
    sender?.close();
    await publisher.endAsync();
    await bridge.kill('SIGTERM');
  }
  const against = (side: Side, atLeast: number): Measure[] => [
    {
      name: `against ${names[side]}`,
      unit: `x ${side}`,
      perRound: ratiosOf(rates.service, rates[side]),
      ...(isQuick ? {} : { target: { atLeast } }),
    },
  ];
  result.measures.push(
    ...against('mosquitto', 1),
    ...(party === undefined ? [] : against('party', 2)),
    ...sides.map((side) => ({ name: `  ${names[side]}`, unit: 'deliveries/s', perRound: rates[side] })),
  );
  return result;
}

const names: Record<Side, string> = { service: 'service', mosquitto: "mosquitto's listener", party: 'partyserver' };

/** The subscribers of one side, in threads of their own. */
class Crowd {
  readonly #threads: Worker[];

  constructor(workers: Worker[]) {
    this.#threads = workers;
  }

  static async open(subscribers: Omit<Subscribers, 'count'>, sockets: number): Promise<Crowd> {
    const workers = Array.from({ length: threads }, () => {
      const workerData: Subscribers = { ...subscribers, count: sockets / threads };
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

async function openSocket(url: string): Promise<WebSocket> {
  const socket = new WebSocket(url, { perMessageDeflate: false });
  await once(socket, 'open');
  return socket;
}
