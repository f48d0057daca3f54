// Joins the parts into one bridge: what each part is told when the broker, the Worker or the role changes, and the order
// in which they stop. It must hold no other rules.
import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { PublishFrame } from '../../src/protocol/bridge.ts';
import type { BridgeConfig } from './config.ts';
import { Broker } from './broker.ts';
import { CommandLinks } from './command-links.ts';
import { DeadLetters } from './dead-letters.ts';
import { Deliveries } from './deliveries.ts';
import { runDetached } from './detached.ts';
import { Downlink } from './downlink.ts';
import { DroppedMessages } from './dropped-messages.ts';
import { createHealthServer, type Readiness } from './health.ts';
import { Intake } from './intake.ts';
import type { Log } from './log.ts';
import { LoginCheck } from './login-check.ts';
import { createMetrics, type Metrics } from './metrics.ts';
import { Spool } from './spool.ts';
import { StallWatch } from './stall-watch.ts';
import { UplinkClient } from './uplink-client.ts';
import { Uplink } from './uplink.ts';
import { WorkerLink, type BrokerState, type Role } from './worker-link.ts';

/** How long to wait for a bridge that still uses the folder. */
const lockWaitMs = 15_000;
const commandDrainMs = 1000;
const flushMs = 1000;
const uplinkDrainMs = 5000;

export class Bridge {
  readonly #log: Log;
  readonly #metrics: Metrics = createMetrics();
  readonly #spool: Spool;
  readonly #intake: Intake;
  readonly #uplink: Uplink;
  readonly #stallWatch: StallWatch;
  readonly #broker: Broker;
  readonly #loginCheck: LoginCheck;
  readonly #link: WorkerLink;
  readonly #commandLinks: CommandLinks;
  readonly #downlink: Downlink;
  readonly #health: Server;
  readonly #sessionDigest: string;
  /** Of the last connection to the broker. */
  #session: { connectionId: string; isPresent: boolean; readUntilMs: number } | null = null;
  /** Null until the Worker has assigned one. */
  #role: Role | null = null;
  #isStopping = false;
  #reportState: () => void = () => undefined;
  #reportRefusal: (remedy: string) => void = () => undefined;

  /** Throws when the spool cannot be opened or the health port is taken. */
  static async start(config: BridgeConfig, log: Log): Promise<Bridge> {
    const { spool, deliveries } = await Spool.open({ ...config.spool, bridgeId: config.bridgeId, log, lockWaitMs });
    const bridge = new Bridge(config, log, spool, new Deliveries(deliveries));
    if (config.health !== undefined) {
      const { host, port } = config.health;
      await once(bridge.#health.listen(port, host), 'listening');
      log.info('health is served', { host, port: (bridge.#health.address() as AddressInfo).port });
    }
    bridge.#uplink.start();
    bridge.#stallWatch.start();
    bridge.#link.start();
    return bridge;
  }

  private constructor(config: BridgeConfig, log: Log, spool: Spool, deliveries: Deliveries) {
    const metrics = this.#metrics;
    this.#log = log;
    this.#spool = spool;
    this.#sessionDigest = createHash('sha256').update(config.mqtt.clientId).digest('hex').slice(0, 32);
    const dropped = new DroppedMessages();
    this.#intake = new Intake({ spool, deliveries, metrics, rates: config.rates, dropped });
    this.#uplink = new Uplink({
      spool,
      client: new UplinkClient(config.workerUrl, config.bridgeSecret),
      deadLetters: new DeadLetters(config.deadLetters),
      log,
      metrics,
      dropped,
      maxTries: config.uplink.maxTries,
      roundTripMs: () => this.#link.roundTripMs,
    });
    this.#stallWatch = new StallWatch(this.#uplink.progress, config.uplink.stalledAfterMs, log, (stall) =>
      this.#link.send({ type: 'uplink', stall }),
    );
    this.#broker = new Broker(config.mqtt, log, {
      onSession: (isPresent) => {
        this.#session = { connectionId: randomUUID(), isPresent, readUntilMs: this.#intake.readUntilMs };
        this.#intake.noteSession(isPresent, this.#link.isRoleSure);
      },
      onMessage: (connection, message, proceed) => this.#intake.take(connection, message, proceed),
      onConnectedChange: (isConnected) => this.#noteBrokerChange(isConnected),
      onRetry: () => metrics.reconnects.inc({ peer: 'broker' }),
      // Only the Worker knows whether the session should be ours; without a link, it says so with the next one.
      onTakenOver: () => this.#link.restart(),
    });
    this.#loginCheck = new LoginCheck(config.mqtt, config.loginCheck, log);
    const linkOptions = {
      workerUrl: config.workerUrl,
      secret: config.bridgeSecret,
      bridgeId: config.bridgeId,
      instanceId: randomUUID(),
      spoolId: spool.spoolId,
      sessionDigest: this.#sessionDigest,
      log,
      onPublish: (frame: PublishFrame, link: WorkerLink) => this.#downlink.take(frame, link),
      onRetry: () => metrics.reconnects.inc({ peer: 'worker' }),
    };
    this.#link = new WorkerLink({
      ...linkOptions,
      commandLink: null,
      readBroker: () => this.#readBroker(),
      onRole: (role, resumes, commandLinks) => this.#setRole(role, resumes, commandLinks),
      onConnectedChange: (isConnected, lastFrameAtMs) => this.#noteLinkChange(isConnected, lastFrameAtMs),
      // The other process is connected to the broker under the same client id by now, or will be.
      onReplaced: () => this.#setRole('standby', false, 0),
      onRefused: (remedy) => this.#reportRefusal(remedy),
    });
    this.#commandLinks = new CommandLinks(
      (commandLink) =>
        new WorkerLink({
          ...linkOptions,
          commandLink,
          readBroker: () => ({ connected: this.#broker.isConnected }),
          onRole: () => undefined,
          onConnectedChange: (isConnected, lastFrameAtMs, link) =>
            this.#downlink.noteLinkChange(link, isConnected, lastFrameAtMs),
          onReplaced: () => undefined,
        }),
    );
    this.#downlink = new Downlink({ broker: this.#broker, link: this.#link, log, metrics });
    this.#health = createHealthServer(metrics.registry, log, () => this.#readReadiness());
    this.#observe();
  }

  get state() {
    return {
      broker: this.#broker.isConnected ? 'connected' : 'disconnected',
      link: this.#link.isConnected ? 'connected' : 'disconnected',
      role: this.#role,
    };
  }

  onStateChange(report: () => void): void {
    this.#reportState = report;
  }

  /** The Worker does not let this bridge in, and never did. */
  onRefused(report: (remedy: string) => void): void {
    this.#reportRefusal = report;
  }

  /** Commands stop first, then the broker, so that a standby can take over while the last messages go up. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#loginCheck.stop();
    await this.#downlink.stop(commandDrainMs);
    this.#intake.stop();
    await this.#spool.flush(flushMs);
    await this.#broker.stop();
    await Promise.all([this.#link.stop(), this.#commandLinks.stop()]);
    await this.#uplink.drain(uplinkDrainMs);
    this.#stallWatch.stop();
    this.#health.close();
    this.#health.closeAllConnections();
    await this.#spool.close();
    this.#log.info('left', { depth: this.#spool.depth });
  }

  #setRole(role: Role, resumes: boolean, commandLinks: number): void {
    // Promoted while stopping: the session is for the next bridge.
    if (this.#isStopping) return;
    if (role !== this.#role) this.#log.info('role', { role });
    this.#role = role;
    if (!resumes) this.#intake.noteOtherBridge();
    this.#downlink.setRole(role);
    this.#commandLinks.setCount(role === 'active' ? commandLinks : 0);
    if (role === 'active') {
      this.#loginCheck.stop();
      this.#broker.start(resumes);
    } else {
      this.#loginCheck.start();
      runDetached(this.#broker.stop());
    }
    this.#reportState();
  }

  #noteBrokerChange(isConnected: boolean): void {
    if (!isConnected) this.#intake.noteConnectionEnd();
    const { connected, session } = this.#readBroker();
    this.#link.send({ type: 'broker', connected, ...(session === undefined ? {} : { session }) });
    this.#commandLinks.send({ type: 'broker', connected });
    this.#downlink.refuseWaiting();
    this.#reportState();
  }

  #readBroker(): BrokerState {
    if (!this.#broker.isConnected || this.#session === null) return { connected: false };
    const { connectionId, isPresent, readUntilMs } = this.#session;
    const readUntilMsAgo = Math.max(0, Date.now() - readUntilMs);
    return { connected: true, session: { name: this.#sessionDigest, connectionId, isPresent, readUntilMsAgo } };
  }

  #noteLinkChange(isConnected: boolean, lastFrameAtMs: number): void {
    this.#broker.setWorkerReachable(isConnected);
    if (isConnected) this.#stallWatch.report();
    this.#downlink.noteLinkChange(this.#link, isConnected, lastFrameAtMs);
    this.#reportState();
  }

  #readReadiness(): Readiness {
    const isBrokerFit = this.#role === 'standby' ? !this.#loginCheck.hasFailed : this.#broker.isSubscribed;
    const { stall, stalledSeconds } = this.#stallWatch;
    const uplink =
      stall === null
        ? { uplink: 'moving' }
        : { uplink: 'stalled', uplinkReason: stall.reason, uplinkStalledSeconds: stalledSeconds };
    return {
      isReady: this.#link.isConnected && isBrokerFit && !this.#uplink.isUnauthorized && stall === null,
      details: {
        ...this.state,
        subscribed: this.#broker.isSubscribed,
        ...(this.#role === 'standby' && { standbyLogin: this.#loginCheck.state }),
        authorized: !this.#uplink.isUnauthorized,
        ...uplink,
      },
    };
  }

  #observe(): void {
    const oldestAgeSeconds = (): number => this.#uplink.progress.oldestAgeMs / 1000;
    const { observe } = this.#metrics;
    const spool = this.#spool;
    observe('spool_depth', 'Messages on the disk that the Worker has not answered for', () => spool.depth);
    observe('spool_bytes', 'Bytes of these messages, which SPOOL_MAX_BYTES limits', () => spool.bytes);
    observe('spool_full', '1 while the spool takes no messages', () => spool.isFull);
    observe('spool_oldest_age_seconds', 'Age of the oldest message in the spool', oldestAgeSeconds);
    const stalledSeconds = (): number => this.#stallWatch.stalledSeconds;
    observe('uplink_stalled_seconds', 'For how long no message left the spool while some wait there', stalledSeconds);
    observe('unacknowledged', 'Messages from the broker that are not on the disk yet', () => spool.pendingCount);
    observe('commands_unanswered', 'Commands not acknowledged by the broker yet', () => this.#broker.unanswered);
    observe('broker_connected', '1 while connected to the broker', () => this.#broker.isConnected);
    observe('link_connected', '1 while the Worker answers on the link', () => this.#link.isConnected);
    observe(
      'standby_login_failed',
      '1 while the broker would not let this standby in',
      () => this.#loginCheck.hasFailed,
    );
    observe(
      'command_links_connected',
      'Command links that the Worker answers on',
      () => this.#commandLinks.connectedCount,
    );
    observe('active', '1 while this bridge is the active one', () => this.#role === 'active');
  }
}
