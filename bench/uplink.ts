// B2 and B2e: reports of devices to a relay subscriber, each accounted for. B2 goes through broker and bridge, against a plain
// subscriber of the same broker. B2e goes over direct connections, with and without the gateway, against the way of B2.
import type { Socket } from 'node:net';
import { connectAsync } from 'mqtt';
import { TcpProxy } from '../rig/clients/tcp-proxy.ts';
import { GatewayProcess } from '../rig/services/processes.ts';
import { untilResting } from './parts/cpu-time.ts';
import { brokerLines, deviceLines, Publishers, type Line } from './parts/publishers.ts';
import { makeReports, textOf, type Kind } from './parts/reports.ts';
import type { BenchResult } from './parts/results.ts';
import { BenchRig, showTroubleOf } from './parts/rig.ts';
import {
  compareSides,
  measuresOf,
  perSecondText,
  ratiosOf,
  type Benchmark,
  type BenchOptions,
} from './parts/rounds.ts';

type Variant = { name: string; deviceCount: number; kind: Kind; oneWayMs: number; atLeast: number };
type DirectSide = 'bridge' | 'direct' | 'gateway';

/** 30 ms are added to each direction: the harder reading of the target. */
const variants: Variant[] = [
  { name: '10 devices', deviceCount: 10, kind: 'resting', oneWayMs: 0, atLeast: 0.62 },
  { name: '10 devices, moving', deviceCount: 10, kind: 'moving', oneWayMs: 0, atLeast: 0.62 },
  { name: '10 devices, 30 ms away', deviceCount: 10, kind: 'resting', oneWayMs: 30, atLeast: 0.6 },
  { name: '1 000 devices', deviceCount: 1_000, kind: 'resting', oneWayMs: 0, atLeast: 0.35 },
  { name: '1 000 devices, moving', deviceCount: 1_000, kind: 'moving', oneWayMs: 0, atLeast: 0.2 },
];
const directDevices = 10;
const counts = { B2: 40_000, B2e: 20_000, quick: 2_000 };

/** Topics of the same form and length that no bridge listens to: the other side's turn costs it nothing. */
const roots = { plain: '/syx/', latchwork: '/sys/' };
const plainFilter = '/syx/+/+/thing/event/property/post';

export const uplink: Benchmark = { name: 'B2', variants: variants.map(({ name }) => name), measure: measureUplink };
export const directUplink: Benchmark = { name: 'B2e', variants: [], measure: measureDirect };

async function measureUplink(options: BenchOptions): Promise<BenchResult> {
  const count = options.isQuick ? counts.quick : counts.B2;
  const wanted = variants.filter(({ name }) => options.variant === null || options.variant === name);
  const deviceCount = Math.max(...wanted.map((variant) => variant.deviceCount));
  const rig = await options.keep(BenchRig.start({ deviceCount }));
  const publishers = await options.keep(Publishers.connect(brokerLines(rig.broker.port)));
  const result: BenchResult = {
    title: 'uplink, QoS 1: broker -> bridge -> Worker -> device -> relay, against broker -> plain subscriber',
    settings: [
      'plain: mqtt.js as in the bridge, MQTT 5, persistent session, receive maximum 500, nothing kept safe',
      'relay: one WebSocket for 100 devices; publishers: a thread with 4 connections and ready-made packets',
      'resting: position unchanged, signal strength differs; moving: every report tells another position',
      `each round: ${count} reports, at most 10 000 of them under way, until the last one has arrived`,
    ],
    measures: [],
    failures: [],
  };
  for (const { name, kind, oneWayMs, atLeast, ...variant } of wanted) {
    const devices = rig.devices.slice(0, variant.deviceCount);
    const proxy = oneWayMs === 0 ? null : await TcpProxy.start(rig.worker.port, oneWayMs);
    const bridge = await rig.startBridge(proxy?.url);
    const reportTopics = devices.map(({ topics }) => topics.propertyPost);
    const relay = await rig.follow(reportTopics, publishers.noteArrival);
    const send = async (side: keyof typeof roots, reportCount = count): Promise<number> => {
      const { perSecond, problems } = await publishers.send(makeReports(devices, reportCount, kind, roots[side]));
      result.failures.push(...problems.map((problem) => `${name}, ${side}: ${problem}`));
      return perSecond;
    };
    // The first report of a device writes and announces that it is online: done before anything is counted.
    await send('latchwork', Math.max(devices.length, 1_000));
    await untilResting(rig.worker.pid);
    const run = async (side: keyof typeof roots): Promise<number> => {
      if (side === 'latchwork') return send(side);
      const subscriber = await subscribePlainly(rig.broker.url, publishers.noteArrival);
      const perSecond = await send(side);
      await subscriber.endAsync();
      return perSecond;
    };
    const rates = await compareSides(`B2 ${name}`, ['plain', 'latchwork'], options, run, perSecondText);
    result.measures.push(
      { name, unit: 'x plain', perRound: ratiosOf(rates.latchwork, rates.plain), target: { atLeast } },
      ...measuresOf(rates, 'reports/s'),
    );
    await relay.stop();
    await bridge.kill('SIGTERM');
    await proxy?.stop();
  }
  return result;
}

/** An application that subscribes at the broker itself, with the library and window of the bridge. It writes nothing to a disk. */
async function subscribePlainly(brokerUrl: string, onText: (text: string) => void) {
  const client = await connectAsync(brokerUrl, {
    clientId: 'bench-plain-subscriber',
    protocolVersion: 5,
    clean: false,
    properties: { sessionExpiryInterval: 86_400, receiveMaximum: 500 },
    reconnectPeriod: 0,
  });
  (client.stream as unknown as Socket).setNoDelay(true);
  client.on('message', (topic, payload) => onText(textOf(topic, payload.toString())));
  await client.subscribeAsync(plainFilter, { qos: 1 });
  return client;
}

async function measureDirect(options: BenchOptions): Promise<BenchResult> {
  const count = options.isQuick ? counts.quick : counts.B2e;
  const rig = await options.keep(BenchRig.start({ deviceCount: directDevices }));
  const { broker, worker, devices } = rig;
  await rig.startBridge();
  await using gateway = await GatewayProcess.start(worker.url, { LOG_LEVEL: 'info' });
  showTroubleOf('gateway', gateway);
  const lines: Record<DirectSide, Line[]> = {
    bridge: brokerLines(broker.port),
    direct: deviceLines(devices, ({ deviceId }) => `${worker.url.replace(/^http/, 'ws')}/mqtt/${deviceId}`),
    gateway: deviceLines(devices, () => `tcp://127.0.0.1:${gateway.port}`),
  };
  const result: BenchResult = {
    title: 'uplink on a direct connection, QoS 1: device -> Worker -> relay, and device -> gateway -> Worker -> relay',
    settings: [
      'direct: each device has a WebSocket of its own and sends one packet a frame, at most 100 unacknowledged',
      'gateway: each device has a TCP connection of its own to the production gateway',
      'bridge: the same reports over four connections to the broker',
      `each round: ${count} reports, at most 10 000 of them under way`,
    ],
    measures: [],
    failures: [],
  };
  const run = async (side: DirectSide): Promise<number> => {
    const publishers = await Publishers.connect(lines[side]);
    const relay = await rig.follow(
      devices.map(({ topics }) => topics.propertyPost),
      publishers.noteArrival,
    );
    // What a connection causes is over before anything is counted.
    await untilResting(worker.pid);
    const { perSecond, problems } = await publishers.send(makeReports(devices, count, 'resting', roots.latchwork));
    result.failures.push(...problems.map((problem) => `${side}: ${problem}`));
    await publishers.stop();
    await relay.stop();
    return perSecond;
  };
  const rates = await compareSides('B2e', ['bridge', 'direct', 'gateway'], options, run, perSecondText);
  result.measures.push(
    {
      name: `${directDevices} devices`,
      unit: 'x bridge',
      perRound: ratiosOf(rates.direct, rates.bridge),
      target: { atLeast: 1 },
    },
    { name: '  through the gateway', unit: 'x bridge', perRound: ratiosOf(rates.gateway, rates.bridge) },
    ...measuresOf(rates, 'reports/s'),
  );
  return result;
}
