// Directly connected devices, half of them over WebSocket and half through the gateway, while gateway, Worker, connections or
// answers fail under load. What has a PUBACK is in effect; what has more effects than attempts was doubled by the service.
import { setTimeout as sleep } from 'node:timers/promises';
import { GatewayProcess } from '../../../rig/services/processes.ts';
import { TcpProxy, type Cut } from '../../../rig/clients/tcp-proxy.ts';
import type { WorkerRig } from '../../../rig/worker/worker-rig.ts';
import { connectDevices, overTcp, overWebSocket, type WayIn } from '../rig/direct-publishers.ts';
import { FaultRig } from '../rig/fault-rig.ts';
import { slotsPerDevice } from '../rig/message-maker.ts';
import { find, type Scenario } from '../rig/scenario.ts';
import { restartWorker, seenInDevices } from '../rig/worker-outages.ts';

const deviceCount = 20;
const perSecond = 200;

/** A gateway that can be killed and started again at the same port. */
class DirectDoor {
  readonly workerUrl: string;
  port = 0;
  #gateway: GatewayProcess | undefined;

  constructor(workerUrl: string) {
    this.workerUrl = workerUrl;
  }

  async start(): Promise<void> {
    const port = this.port === 0 ? {} : { MQTT_PORT: String(this.port) };
    this.#gateway = await GatewayProcess.start(this.workerUrl, port);
    this.port = this.#gateway.port;
  }

  async stop(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    await this.#gateway?.kill(signal);
  }
}

async function openDirect(worker: WorkerRig, door: DirectDoor, ways: readonly [WayIn, ...WayIn[]]) {
  const devices = await worker.activateMany(deviceCount);
  return FaultRig.openWith(worker, devices, door, (events) => connectDevices(devices, ways, events));
}

export const directGatewayKills: Scenario = {
  name: 'direct-gateway-kills',
  title: 'the gateway is killed under load, in turn with SIGKILL and in order, and started again',
  run: async ({ worker, random, count }) => {
    const [messages, kills] = [count(12_000, 1_000), count(20, 3)];
    const door = new DirectDoor(worker.url);
    await door.start();
    await using rig = await openDirect(worker, door, [overTcp(() => door.port)]);
    const loading = rig.load(messages, perSecond);
    for (let kill = 1; kill <= kills; kill += 1) {
      await rig.untilSent(Math.floor((messages * kill) / (kills + 1)));
      await sleep(random.between(0, 40));
      await door.stop(kill % 2 === 1 ? 'SIGKILL' : 'SIGTERM');
      await door.start();
    }
    await loading;
    return [find(`${kills} kills`, await rig.finish(), [`${rig.publisher.connections} connections`])];
  },
};

export const directSocketCuts: Scenario = {
  name: 'direct-socket-cuts',
  title: 'the connections of directly connected devices are cut under load, by reset and by silence, on each leg',
  run: async ({ worker, random, count, isShort }) => {
    const cuts = count(40, 3);
    await using socketLeg = await TcpProxy.start(worker.port);
    await using workerLeg = await TcpProxy.start(worker.port);
    const door = new DirectDoor(workerLeg.url);
    await door.start();
    await using gatewayLeg = await TcpProxy.start(door.port);
    const ways = [overWebSocket(() => socketLeg.port), overTcp(() => gatewayLeg.port)] as const;
    await using rig = await openDirect(worker, door, ways);
    const endLoad = rig.startLoad(perSecond);
    for (let cut = 0; cut < cuts; cut += 1) {
      const legs = [[socketLeg], [gatewayLeg], [workerLeg], [socketLeg, gatewayLeg]][cut % 4] ?? [];
      const kind = random.pick<Cut>(['reset', 'stall']);
      for (const leg of legs) leg.cut(kind);
      await sleep(isShort ? 500 : random.between(100, 8_000));
      for (const leg of legs) leg.heal(kind === 'stall' && random.isBelow(0.5));
      await sleep(isShort ? random.between(100, 600) : random.between(500, 3_000));
    }
    await endLoad();
    return [find(`${cuts} cuts`, await rig.finish(), [`${rig.publisher.connections} connections`])];
  },
};

export const directAnswersHeld: Scenario = {
  name: 'direct-answers-held',
  title:
    'the acknowledgements of the direct connection are held back and never arrive, and each device sends again what has none',
  run: async ({ worker, random, count }) => {
    const rounds = count(40, 3);
    await using socketLeg = await TcpProxy.start(worker.port);
    await using workerLeg = await TcpProxy.start(worker.port);
    const door = new DirectDoor(workerLeg.url);
    await door.start();
    const ways = [overWebSocket(() => socketLeg.port), overTcp(() => door.port)] as const;
    await using rig = await openDirect(worker, door, ways);
    const endLoad = rig.startLoad(perSecond);
    let held = 0;
    for (let round = 0; round < rounds; round += 1) {
      const leg = round % 2 === 0 ? socketLeg : workerLeg;
      leg.holdAnswers();
      const before = rig.publisher.unacknowledged;
      await sleep(random.between(200, 800));
      held += Math.max(0, rig.publisher.unacknowledged - before);
      leg.dropAnswers();
      await sleep(random.between(200, 800));
    }
    await endLoad();
    const facts = [
      `${held} messages without an answer when they were cut off`,
      `${rig.publisher.connections} connections`,
    ];
    const finding = find(`${rounds} rounds`, await rig.finish(), facts);
    if (held === 0) finding.failures.push('no answer was held');
    return [finding];
  },
};

export const directWorkerRestarts: Scenario = {
  name: 'direct-worker-restarts',
  title:
    'the Worker is killed and restarted under load of directly connected devices, in turn with SIGKILL and in order',
  seenBy: seenInDevices,
  run: async ({ worker, count }) => {
    const door = new DirectDoor(worker.url);
    await door.start();
    const ways = [overWebSocket(() => worker.port), overTcp(() => door.port)] as const;
    await using rig = await openDirect(worker, door, ways);
    const finding = await restartWorker(rig, {
      restarts: count(20, 2),
      perRound: count((deviceCount * slotsPerDevice) / 2, 600),
      perSecond,
      make: () => rig.maker.make({ moves: true }),
    });
    finding.facts.push(`${rig.publisher.connections} connections`);
    finding.facts.push(`${rig.history.repeatedAttempts} sent again by devices`);
    return [finding];
  },
};
