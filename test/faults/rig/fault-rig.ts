// The rig of a scenario: a broker, devices, and bridges that it starts and kills. It keeps the history of every message up
// to the relay. It must not cause faults nor say which outcome is wanted.
import { rmSync } from 'node:fs';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Activation } from '../../../rig/clients/accounts.ts';
import { makeSpoolDir, type BridgeProcess } from '../../../rig/services/processes.ts';
import { Mosquitto } from '../../../rig/brokers/mosquitto.ts';
import { findFreePort } from '../../../rig/ports.ts';
import { Relay } from '../../../client/src/relay.ts';
import { Changes } from '../../../rig/changes.ts';
import { WorkerRig } from '../../../rig/worker/worker-rig.ts';
import { untilSpoolEmpty } from './bridge-metrics.ts';
import { giveUpAfterQuietMs, History, type Verdict } from './history.ts';
import { MessageMaker, type Numbered } from './message-maker.ts';
import { type PublisherEvents, StrictPublisher } from './strict-publisher.ts';

const tickMs = 10;
const drainWithinMs = 120_000;
/** How long to wait for messages that should not come any more. */
export const lateMs = 300;
/** A publisher that is slowed down must not collect the whole load in memory and then burst. */
const maxBehind = 2000;

export type Spool = { dir: string; healthPort: number };

export type Outcome = Verdict & {
  /** Slots of the devices' states that hold another number than the last one sent. */
  stale: number;
  /** How often the relay connection was lost; effects in between were not seen. */
  relayLosses: number;
};

export type FaultBroker = { port: number; stop: (signal: 'SIGTERM' | 'SIGKILL') => Promise<void> };
/** One for all devices, or one each. */
export type Publisher = Pick<
  StrictPublisher<Numbered>,
  'publish' | 'unacknowledged' | 'connections' | 'drained' | 'close'
>;

export class FaultRig<B extends FaultBroker = Mosquitto> {
  readonly worker: WorkerRig;
  readonly devices: Activation[];
  readonly broker: B;
  readonly history: History;
  readonly maker: MessageMaker;
  readonly watch: EffectsWatch;
  readonly publisher: Publisher;
  readonly #spools: Spool[] = [];
  readonly #bridges: BridgeProcess[] = [];
  #toPublish = 0;

  private constructor(worker: WorkerRig, devices: Activation[], broker: B, watch: EffectsWatch, publisher: Publisher) {
    this.worker = worker;
    this.devices = devices;
    this.broker = broker;
    this.history = watch.history;
    this.maker = new MessageMaker(devices, watch.history);
    this.watch = watch;
    this.publisher = publisher;
  }

  /** Starts broker, devices and relay client; bridges are started by the scenario. */
  static async open(worker: WorkerRig, deviceCount: number, brokerConfig = ''): Promise<FaultRig> {
    const [devices, broker] = [await worker.activateMany(deviceCount), await Mosquitto.start(brokerConfig)];
    const dial = () => connect({ port: broker.port, host: '127.0.0.1', noDelay: true });
    return FaultRig.openWith(worker, devices, broker, (events) => StrictPublisher.connect(dial, events));
  }

  static async openWith<B extends FaultBroker>(
    worker: WorkerRig,
    devices: Activation[],
    broker: B,
    connectPublisher: (events: PublisherEvents<Numbered>) => Promise<Publisher>,
  ): Promise<FaultRig<B>> {
    const watch = await EffectsWatch.start(worker, devices);
    const { history } = watch;
    const publisher = await connectPublisher({
      onAttempt: ({ number, device, isResting }) => {
        if (number !== null) history.notePublished(number, device, isResting);
      },
      onAccepted: ({ number }) => number !== null && history.noteAccepted(number),
    });
    return new FaultRig(worker, devices, broker, watch, publisher);
  }

  /** Spools stay apart and outlive their bridges; the folders go with the rig. */
  async makeSpool(): Promise<Spool> {
    const spool = { dir: makeSpoolDir(), healthPort: await findFreePort() };
    this.#spools.push(spool);
    return spool;
  }

  startBridge(options: {
    spool: Spool;
    workerUrl?: string;
    mqttPort?: number;
    environment?: Record<string, string>;
  }): BridgeProcess {
    const { spool, workerUrl = this.worker.url, mqttPort = this.broker.port, environment = {} } = options;
    const bridge = this.worker.startBridge({
      workerUrl,
      mqttUrl: `mqtt://127.0.0.1:${mqttPort}`,
      spoolDir: spool.dir,
      environment: { LOG_LEVEL: 'info', HEALTH_PORT: String(spool.healthPort), ...environment },
    });
    this.#bridges.push(bridge);
    return bridge;
  }

  /** Publishes at a steady pace; resolves when the last one was handed to the publisher, acknowledged or not. */
  async load(
    count: number,
    perSecond: number,
    make: (index: number) => Numbered[] = () => [this.maker.make()],
  ): Promise<void> {
    const startedAtMs = performance.now();
    let sent = 0;
    while (sent < count) {
      const due = Math.min(count, Math.ceil(((performance.now() - startedAtMs) * perSecond) / 1000));
      for (; sent < due && this.publisher.unacknowledged < maxBehind; sent += 1) {
        for (const message of make(sent)) this.publisher.publish(message);
        this.#toPublish += 1;
      }
      await sleep(tickMs);
    }
  }

  /** Publishes at a steady pace until the returned function is called, which resolves like `load`. */
  startLoad(perSecond: number): () => Promise<void> {
    const ending = new AbortController();
    const ended = (async () => {
      while (!ending.signal.aborted) await this.load(Math.ceil(perSecond / 5), perSecond);
    })();
    return () => {
      ending.abort();
      return ended;
    };
  }

  /** Resolves when so many messages were handed to the publisher since the rig was opened. */
  async untilSent(count: number): Promise<void> {
    while (this.#toPublish < count) await sleep(tickMs);
  }

  /**
   * Resolves when all that the broker took is in effect, or when nothing came for so long that nothing will.
   * @throws Error with its last words if the bridge that was started last ended by itself
   */
  async untilArrived(giveUpMs = giveUpAfterQuietMs): Promise<void> {
    await this.publisher.drained(drainWithinMs);
    await this.history.untilSettled(giveUpMs, () => this.#failIfBridgeEnded());
  }

  #failIfBridgeEnded(): void {
    const bridge = this.#bridges.at(-1);
    const code = bridge?.child.exitCode ?? 0;
    if (bridge !== undefined && code > 0) throw new Error(`the bridge ended with ${code}; ${bridge.lastWords}`);
  }

  /**
   * Waits for the rest, stops the bridges in order, and judges every message.
   * @throws Error if a bridge keeps messages in its spool
   */
  async finish(giveUpMs = giveUpAfterQuietMs): Promise<Outcome> {
    await this.untilArrived(giveUpMs);
    // A message that has its effect may still be unanswered, and would be sent again.
    for (const { healthPort } of this.#spools) await untilSpoolEmpty(healthPort);
    for (const bridge of this.#bridges) await bridge.kill('SIGTERM');
    await sleep(lateMs);
    const stale = await this.maker.compareState(this.worker);
    return { ...this.history.judge(), stale, relayLosses: this.watch.losses };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.watch.close();
    this.publisher.close();
    for (const bridge of this.#bridges) await bridge.kill('SIGKILL');
    await this.broker.stop('SIGKILL');
    for (const { dir } of this.#spools) rmSync(dir, { recursive: true, force: true });
  }
}

/** The Worker of a run, whose tokens last longer than it: a relay socket closes when its token ends. */
export function startFaultWorker(): Promise<WorkerRig> {
  return WorkerRig.start({ vars: { ACCESS_TOKEN_SECONDS: '86400' } });
}

/**
 * Never finds its connection dead, so that the client keeps it while the Worker hangs. Nothing that the Worker pushes to
 * a connection that was given up would be seen.
 */
class PatientSocket extends WebSocket {
  override send(data: string): void {
    if (data !== '{"action":"ping"}') super.send(data);
    else this.dispatchEvent(new MessageEvent('message', { data: '{"action":"pong"}' }));
  }
}

/** Keeps the history: the number of each message that the relay pushes, and the times at which none could be seen. */
export class EffectsWatch {
  readonly history = new History();
  readonly #relay: Relay;
  readonly #changes = new Changes();
  #active = 0;
  #isWatching = false;
  /** How often the connection was lost. */
  losses = 0;

  private constructor(worker: WorkerRig) {
    const { token } = worker.owner;
    this.#relay = new Relay(worker.url, {
      login: () => Promise.resolve({ token, renewAtMs: Infinity }),
      WebSocket: PatientSocket,
      backOff: { firstMs: 100, maxMs: 200 },
      onState: (state) => {
        if (state === 'waiting') this.#noteLost();
      },
    });
  }

  /** Resolves when every subscription is active. */
  static async start(worker: WorkerRig, devices: Activation[]): Promise<EffectsWatch> {
    const watch = new EffectsWatch(worker);
    const subscriptions = devices.map(({ topics }) =>
      watch.#relay.subscribe(topics.propertyPost, {
        onMessage: ({ payload }) => {
          const number = /"n":(\d+)/.exec(JSON.stringify(payload))?.[1];
          if (number !== undefined) watch.history.noteEffect(Number(number));
        },
        onActive: () => watch.#noteActive(devices.length),
      }),
    );
    await Promise.all(subscriptions.map(({ active }) => active));
    return watch;
  }

  /** Resolves when the connection was lost so often and every subscription is active again. */
  untilBack(losses: number): Promise<void> {
    return this.#changes.until('the relay again', () => this.losses >= losses && this.#isWatching, 60_000);
  }

  close(): void {
    this.#relay.close();
  }

  #noteActive(deviceCount: number): void {
    this.#active += 1;
    if (this.#active < deviceCount) return;
    this.#isWatching = true;
    if (this.losses > 0) this.history.noteWatchBack();
    this.#changes.note();
  }

  #noteLost(): void {
    this.#active = 0;
    if (!this.#isWatching) return;
    this.#isWatching = false;
    this.losses += 1;
    this.history.noteWatchLost();
  }
}
