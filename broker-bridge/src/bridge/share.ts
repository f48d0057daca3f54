// One share of the uplink at this bridge: joins its parts, from the session with the broker to its link with the Worker. Holds
// what each part is told when broker, Worker or role change, and the order in which they stop. It must hold no other rules.
import { createHash, randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { uplinkFiltersOf, type PublishFrame } from '../../../src/protocol/bridge.ts';
import type { BridgeConfig } from '../config.ts';
import { Broker } from '../broker/broker.ts';
import { CommandLinks } from './command-links.ts';
import { DeadLetters } from '../uplink/dead-letters.ts';
import { Deliveries } from '../intake/deliveries.ts';
import { runDetached } from '../../../node-service/detached.ts';
import { Downlink } from '../downlink/downlink.ts';
import { DroppedMessages } from '../intake/dropped-messages.ts';
import { Intake } from '../intake/intake.ts';
import type { Log } from '../../../node-service/log.ts';
import { LoginCheck } from '../broker/login-check.ts';
import type { Metrics } from '../metrics.ts';
import { changeShares, sessionClientId } from './share-change.ts';
import { ShareProducts } from './share-products.ts';
import { Spool } from '../spool/spool.ts';
import { StallWatch } from '../uplink/stall-watch.ts';
import { UplinkClient } from '../uplink/client.ts';
import { Uplink } from '../uplink/uplink.ts';
import { WorkerLink, type BrokerState, type Counts, type Role } from './worker-link.ts';

type ShareOptions = {
  config: BridgeConfig;
  log: Log;
  metrics: Metrics;
  /** 0 where there is one. */
  number: number;
  /** How many there are. */
  shares: number;
  readActiveShares: () => number[];
  onChange: () => void;
  /** The Worker has another number of shares. */
  onShares: (shares: number) => void;
  onCounts: (counts: Counts, number: number) => void;
  /** The sessions were changed a short time ago, so that what comes may have come before. */
  mayRepeat: () => boolean;
  /** The Worker does not let this bridge in, and never did. */
  onRefused: (remedy: string) => void;
};

/** How long to wait for a bridge that still uses the folder. */
const lockWaitMs = 15_000;
const commandDrainMs = 1000;
const flushMs = 1000;
const uplinkDrainMs = 5000;
const drainLookMs = 20;
const changedAgainMs = 500;
/** What came while the sessions were changed is at the front of the new ones. */
const repeatsForMs = 5_000;

export class Share {
  readonly number: number;
  readonly spool: Spool;
  readonly uplink: Uplink;
  readonly stallWatch: StallWatch;
  readonly broker: Broker;
  readonly loginCheck: LoginCheck;
  readonly commandLinks: CommandLinks;
  readonly #options: ShareOptions;
  readonly #intake: Intake;
  readonly #products: ShareProducts;
  readonly #link: WorkerLink;
  readonly #downlink: Downlink;
  readonly #sessionName: string;
  /** Of the last connection to the broker. */
  #session: { connectionId: string; isPresent: boolean; readUntilMs: number } | null = null;
  /** Null until the Worker has assigned one. */
  #role: Role | null = null;
  #isStopping = false;
  /** The broker may be connected, or will be. */
  #isServing = false;
  #isChanging = false;
  #wasConnected = false;

  /** Throws when the spool cannot be opened. `isServed`: false for what a former share has left in its spool. */
  static async start(options: ShareOptions, isServed: boolean): Promise<Share> {
    const { config, log, number } = options;
    const dir = spoolDirOf(config.spool.dir, number);
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    const { spool, deliveries } = await Spool.open({
      ...config.spool,
      dir,
      bridgeId: config.bridgeId,
      log,
      lockWaitMs,
    });
    const share = new Share(options, dir, spool, new Deliveries(deliveries));
    share.uplink.start();
    share.stallWatch.start();
    if (isServed) share.#link.start();
    return share;
  }

  private constructor(options: ShareOptions, dir: string, spool: Spool, deliveries: Deliveries) {
    const { config, log, metrics, number, shares } = options;
    this.#options = options;
    this.number = number;
    this.spool = spool;
    const clientId = sessionClientId(config.mqtt.clientId, number, shares);
    this.#sessionName = digestOf(clientId);
    const dropped = new DroppedMessages();
    this.#intake = new Intake({ spool, deliveries, metrics, rates: config.rates, dropped });
    this.uplink = new Uplink({
      spool,
      client: new UplinkClient(config.workerUrl, config.bridgeSecret),
      deadLetters: new DeadLetters({ ...config.deadLetters, dir }),
      log,
      metrics,
      dropped,
      maxTries: config.uplink.maxTries,
      roundTripMs: () => this.#link.roundTripMs,
    });
    this.stallWatch = new StallWatch(this.uplink.progress, config.uplink.stalledAfterMs, log, (stall) =>
      this.#link.send({ type: 'uplink', stall }),
    );
    const { workerUrl, bridgeSecret: secret, bridgeId } = config;
    this.#products = new ShareProducts({ workerUrl, secret, share: number, shares, log });
    this.broker = new Broker(
      { ...config.mqtt, clientId },
      log,
      {
        onSession: (isPresent) => {
          this.#session = { connectionId: randomUUID(), isPresent, readUntilMs: this.#intake.readUntilMs };
          this.#intake.noteSession(isPresent, this.#link.isRoleSure);
          if (!this.#wasConnected && options.mayRepeat()) this.#intake.expectRepeats(repeatsForMs);
          this.#wasConnected = true;
        },
        onMessage: (connection, message, proceed) => this.#intake.take(connection, message, proceed),
        onConnectedChange: (isConnected) => this.#noteBrokerChange(isConnected),
        onRetry: () => metrics.reconnects.inc({ peer: 'broker' }),
        // Only the Worker knows whether the session should be ours; without a link, it says so with the next one.
        onTakenOver: () => this.#link.restart(),
      },
      () => this.#products.filters(),
    );
    this.loginCheck = new LoginCheck(config.mqtt, config.loginCheck, log);
    const linkOptions = {
      workerUrl,
      secret,
      bridgeId,
      share: number,
      instanceId: randomUUID(),
      spoolId: spool.spoolId,
      // Of all shares the same: it tells whether the bridges have the same MQTT_CLIENT_ID.
      sessionDigest: digestOf(config.mqtt.clientId),
      log,
      readActiveShares: options.readActiveShares,
      onProduct: (productKey: string) => this.#serveProduct(productKey),
      onPublish: (frame: PublishFrame, link: WorkerLink) => this.#downlink.take(frame, link),
      onRetry: () => metrics.reconnects.inc({ peer: 'worker' }),
    };
    this.#link = new WorkerLink({
      ...linkOptions,
      commandLink: null,
      readBroker: () => this.#readBroker(),
      onRole: (role, resumes, counts) => {
        if (counts !== null && counts.shares !== shares) {
          options.onShares(counts.shares);
          return;
        }
        if (counts !== null) options.onCounts(counts, number);
        this.#setRole(role, resumes, counts?.commandLinks ?? 0, counts?.formerShares);
      },
      onConnectedChange: (isConnected, lastFrameAtMs) => this.#noteLinkChange(isConnected, lastFrameAtMs),
      // The other process is connected to the broker under the same client id by now, or will be.
      onReplaced: () => this.#setRole('standby', false, 0),
      onRefused: options.onRefused,
    });
    this.commandLinks = new CommandLinks(
      (commandLink) =>
        new WorkerLink({
          ...linkOptions,
          commandLink,
          readBroker: () => ({ connected: this.broker.isConnected }),
          onRole: () => undefined,
          onConnectedChange: (isConnected, lastFrameAtMs, link) =>
            this.#downlink.noteLinkChange(link, isConnected, lastFrameAtMs),
          onReplaced: () => undefined,
        }),
    );
    this.#downlink = new Downlink({ broker: this.broker, link: this.#link, log, metrics });
  }

  get role(): Role | null {
    return this.#role;
  }

  get isLinked(): boolean {
    return this.#link.isConnected;
  }

  /** Says to the Worker for which shares this bridge is active now. */
  tellActiveShares(active: number[]): void {
    this.#link.send({ type: 'shares', active });
  }

  /** Commands stop first, then the broker, so that a standby can take over while the last messages go up. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.loginCheck.stop();
    await this.#downlink.stop(commandDrainMs);
    this.#intake.stop();
    await this.spool.flush(flushMs);
    await this.broker.stop();
    // With several active bridges this one may be needed elsewhere at any time: the order of messages is worth a moment.
    if (this.#options.shares > 1) await this.#untilSent(flushMs);
    await Promise.all([this.#link.stop(), this.commandLinks.stop()]);
    await this.uplink.drain(uplinkDrainMs);
    this.stallWatch.stop();
    await this.spool.close();
  }

  #setRole(role: Role, resumes: boolean, commandLinks: number, formerShares?: number): void {
    // Promoted while stopping: the session is for the next bridge.
    if (this.#isStopping) return;
    const { log, shares, number } = this.#options;
    const wasActive = this.#role === 'active';
    if (role !== this.#role) log.info('role', { role, ...(shares > 1 && { share: number }) });
    this.#role = role;
    if (!resumes) this.#intake.noteOtherBridge();
    this.#downlink.setRole(role);
    this.commandLinks.setCount(role === 'active' ? commandLinks : 0);
    if (role === 'active') {
      this.loginCheck.stop();
      if (formerShares !== undefined) runDetached(this.#change(formerShares));
      else if (shares === 1) this.broker.start(resumes);
      else if (!this.#isServing) runDetached(this.#begin(resumes));
      this.#isServing = formerShares === undefined;
    } else {
      this.#isServing = false;
      this.loginCheck.start();
      runDetached(shares > 1 && wasActive ? this.#leave() : this.broker.stop());
    }
    this.#options.onChange();
  }

  async #begin(resumes: boolean): Promise<void> {
    const isWanted = () => this.#role === 'active' && !this.#isStopping;
    await this.#products.load(isWanted);
    if (isWanted()) this.broker.start(resumes);
  }

  /** From the sessions of another number of shares to those of the present one; the Worker answers with the role again. */
  async #change(from: number): Promise<void> {
    if (this.#isChanging) return;
    this.#isChanging = true;
    const { config, log, shares } = this.#options;
    const isWanted = () => this.#role === 'active' && !this.#isStopping;
    while (isWanted()) {
      const change = { config, log, intake: this.#intake, spool: this.spool, from, shares, isWanted };
      if (!(await changeShares(change))) continue;
      await this.#untilSent(uplinkDrainMs);
      while (isWanted() && !this.#link.send({ type: 'changed', shares })) await wait(changedAgainMs);
      break;
    }
    this.#isChanging = false;
  }

  /** Another bridge takes the share: it is told when what this one has read is with the Worker, so that it stays in order. */
  async #leave(): Promise<void> {
    await this.#downlink.idle(commandDrainMs);
    if (this.#role === 'active') return;
    await this.broker.stop();
    this.#intake.releaseHeld();
    await this.#untilSent(uplinkDrainMs);
    this.#link.send({ type: 'released' });
  }

  /** Resolves when the Worker has all that was read, at the latest after `maxMs`. */
  async #untilSent(maxMs: number): Promise<void> {
    const untilMs = performance.now() + maxMs;
    while (this.spool.depth + this.spool.pendingCount > 0 && performance.now() < untilMs) await wait(drainLookMs);
  }

  async #serveProduct(productKey: string): Promise<boolean> {
    if (this.#role !== 'active') return false;
    this.#products.add(productKey);
    return this.broker.subscribe(this.#options.shares === 1 ? [] : uplinkFiltersOf(productKey));
  }

  #noteBrokerChange(isConnected: boolean): void {
    if (!isConnected) this.#intake.noteConnectionEnd();
    const { connected, session } = this.#readBroker();
    this.#link.send({ type: 'broker', connected, ...(session === undefined ? {} : { session }) });
    this.commandLinks.send({ type: 'broker', connected });
    this.#downlink.refuseWaiting();
    this.#options.onChange();
  }

  #readBroker(): BrokerState {
    if (!this.broker.isConnected || this.#session === null) return { connected: false };
    const { connectionId, isPresent, readUntilMs } = this.#session;
    const readUntilMsAgo = Math.max(0, Date.now() - readUntilMs);
    return { connected: true, session: { name: this.#sessionName, connectionId, isPresent, readUntilMsAgo } };
  }

  #noteLinkChange(isConnected: boolean, lastFrameAtMs: number): void {
    this.broker.setWorkerReachable(isConnected);
    if (isConnected) {
      this.stallWatch.report();
      this.uplink.resume();
    }
    this.#downlink.noteLinkChange(this.#link, isConnected, lastFrameAtMs);
    this.#options.onChange();
  }
}

/** The first one has the folder that it would have alone. */
function spoolDirOf(dir: string, share: number): string {
  return share === 0 ? dir : join(dir, `share-${share}`);
}

function digestOf(clientId: string): string {
  return createHash('sha256').update(clientId).digest('hex').slice(0, 32);
}
