// A bridge: joins its parts, from the session with the broker to its link with the Worker. Holds what each part is told when
// broker, Worker or role change, the order in which they stop, and what health and metrics show. It must hold no other rules.
import { randomUUID } from 'node:crypto';
import { statfsSync } from 'node:fs';
import { runDetached } from '../../../node-service/detached.ts';
import { serveHealth, type Readiness } from '../../../node-service/health.ts';
import type { Log } from '../../../node-service/log.ts';
import { Broker } from '../broker/broker.ts';
import { LoginCheck } from '../broker/login-check.ts';
import type { BridgeConfig } from '../config.ts';
import { Downlink } from '../downlink/downlink.ts';
import { Deliveries } from '../intake/deliveries.ts';
import { FloodGate } from '../intake/flood-gate.ts';
import { Intake } from '../intake/intake.ts';
import { createMetrics, type Metrics } from '../metrics.ts';
import { Spool } from '../spool/spool.ts';
import { createUplinkClient } from '../uplink/client.ts';
import { DeadLetters } from '../uplink/dead-letters.ts';
import { Uplink } from '../uplink/uplink.ts';
import { untilOpened } from './unopened.ts';
import { WorkerLink, type BrokerState, type Role } from './worker-link.ts';

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
  readonly #broker: Broker;
  readonly #loginCheck: LoginCheck;
  readonly #link: WorkerLink;
  readonly #downlink: Downlink;
  readonly #sessionDigest: string;
  #session: { connectionId: string; isPresent: boolean; readUntilMs: number } | null = null;
  /** Null until the Worker assigns a role. */
  #role: Role | null = null;
  #isStopping = false;
  #endHealth = (): void => undefined;
  onStateChange: () => void = () => undefined;
  /** The Worker does not let this bridge in, and never did. */
  onRefused: (remedy: string) => void = () => undefined;

  /** Waits while the disk refuses the spool. @throws Error if it is damaged or another bridge's, or the health port is taken */
  static async start(config: BridgeConfig, log: Log): Promise<Bridge> {
    const open = () => Spool.open({ ...config.spool, bridgeId: config.bridgeId, log, lockWaitMs });
    const { spool, deliveries } = await open().catch((error: unknown) => untilOpened(config, log, error, open));
    const bridge = new Bridge(config, log, spool, new Deliveries(deliveries));
    const { registry } = bridge.#metrics;
    bridge.#endHealth = await serveHealth(config.health, registry, log, () => bridge.#readReadiness());
    bridge.#uplink.start();
    bridge.#link.start();
    return bridge;
  }

  private constructor(config: BridgeConfig, log: Log, spool: Spool, deliveries: Deliveries) {
    this.#log = log;
    this.#spool = spool;
    this.#sessionDigest = config.sessionDigest;
    const metrics = this.#metrics;
    const floodGate = new FloodGate(config.rates, metrics);
    this.#intake = new Intake({ spool, deliveries, metrics, floodGate });
    this.#uplink = new Uplink({
      spool,
      client: createUplinkClient(config.workerUrl, config.bridgeSecret),
      deadLetters: new DeadLetters(config.deadLetters),
      log,
      metrics,
      floodGate,
      ...config.uplink,
      onStall: (stall) => this.#link.send({ type: 'uplink', stall }),
    });
    this.#broker = new Broker(config.mqtt, log, {
      onSession: (isPresent) => {
        this.#session = { connectionId: randomUUID(), isPresent, readUntilMs: this.#intake.readUntilMs };
        this.#intake.noteSession(isPresent, this.#link.isRoleSure);
      },
      onMessage: (connection, message, proceed) => this.#intake.take(connection, message, proceed),
      onConnectedChange: (isConnected) => this.#noteBrokerChange(isConnected),
      onRetry: () => metrics.reconnects.inc({ peer: 'broker' }),
      // Only the Worker knows whether the session should be ours. Without a link it says so with the next link.
      onTakenOver: () => this.#link.restart(),
    });
    this.#loginCheck = new LoginCheck(config.mqtt, config.loginCheck, log);
    this.#link = new WorkerLink({
      config,
      spoolId: spool.spoolId,
      log,
      readBroker: () => this.#readBroker(),
      onRole: (role, resumes) => this.#setRole(role, resumes),
      onPublish: (frame) => this.#downlink.take(frame),
      onConnectedChange: (isConnected, lastFrameAtMs) => this.#noteLinkChange(isConnected, lastFrameAtMs),
      onRetry: () => metrics.reconnects.inc({ peer: 'worker' }),
      // The other process is connected to the broker under the same client id by now, or will be.
      onReplaced: () => this.#setRole('standby', false),
      onRefused: (remedy) => this.onRefused(remedy),
    });
    this.#downlink = new Downlink({ broker: this.#broker, link: this.#link, log, metrics });
    this.#observe(config.spool.dir);
  }

  get state() {
    return {
      broker: this.#broker.isConnected ? 'connected' : 'disconnected',
      link: this.#link.isConnected ? 'connected' : 'disconnected',
      role: this.#role,
    };
  }

  /** Commands stop first, then the broker, so that a standby can take over while the last messages go up. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#loginCheck.stop();
    await this.#downlink.stop(commandDrainMs);
    this.#intake.stop();
    await this.#spool.flush(flushMs);
    await this.#broker.stop();
    await this.#link.stop();
    await this.#uplink.drain(uplinkDrainMs);
    await this.#spool.close();
    this.#endHealth();
    this.#log.info('left', { depth: this.#spool.depth });
  }

  #setRole(role: Role, resumes: boolean): void {
    // Promoted while stopping: the session is for the next bridge.
    if (this.#isStopping) return;
    if (role !== this.#role) this.#log.info('role', { role });
    this.#role = role;
    if (!resumes) this.#intake.noteOtherBridge();
    this.#downlink.setRole(role);
    if (role === 'active') {
      this.#loginCheck.stop();
      this.#broker.start(resumes);
    } else {
      this.#loginCheck.start();
      runDetached(this.#broker.stop());
    }
    this.onStateChange();
  }

  #noteBrokerChange(isConnected: boolean): void {
    if (!isConnected) this.#intake.noteConnectionEnd();
    this.#link.send({ type: 'broker', ...this.#readBroker() });
    this.#downlink.refuseWaiting();
    this.onStateChange();
  }

  #readBroker(): BrokerState {
    if (!this.#broker.isConnected || this.#session === null) return { connected: false };
    const { connectionId, isPresent, readUntilMs } = this.#session;
    const readUntilMsAgo = Math.max(0, Date.now() - readUntilMs);
    return { connected: true, session: { name: this.#sessionDigest, connectionId, isPresent, readUntilMsAgo } };
  }

  #noteLinkChange(isConnected: boolean, lastFrameAtMs: number): void {
    this.#broker.setWorkerReachable(isConnected);
    if (isConnected) {
      this.#uplink.progress.report();
      this.#uplink.resume();
    }
    this.#downlink.noteLinkChange(isConnected, lastFrameAtMs);
    this.onStateChange();
  }

  #readReadiness(): Readiness {
    const { stall, stalledSeconds } = this.#uplink.progress;
    const isAuthorized = !this.#uplink.isUnauthorized;
    const { isSubscribed } = this.#broker;
    const isFit = this.#role === 'standby' ? !this.#loginCheck.hasFailed : isSubscribed;
    return {
      isReady: this.#link.isConnected && isFit && isAuthorized && stall === null,
      details: {
        ...this.state,
        subscribed: isSubscribed,
        ...(this.#role === 'standby' && { standbyLogin: this.#loginCheck.state }),
        authorized: isAuthorized,
        uplink: stall === null ? 'moving' : 'stalled',
        ...(stall !== null && { uplinkReason: stall.reason, uplinkStalledSeconds: stalledSeconds }),
      },
    };
  }

  #observe(spoolDir: string): void {
    const { observe } = this.#metrics;
    const spool = this.#spool;
    const { progress } = this.#uplink;
    const loginCheck = this.#loginCheck;
    const broker = this.#broker;
    observe('spool_depth', 'Messages on the disk that the Worker has not answered for', () => spool.depth);
    observe('spool_bytes', 'Bytes of these messages, which SPOOL_MAX_BYTES limits', () => spool.bytes);
    observe('spool_full', '1 while the spool takes no messages', () => spool.isFull);
    observe('disk_free_ratio', 'Share of the disk of SPOOL_DIR that is free', () => {
      const { bavail, blocks } = statfsSync(spoolDir);
      return bavail / blocks;
    });
    observe('spool_oldest_age_seconds', 'Age of the oldest message in the spool', () => progress.oldestAgeMs / 1000);
    observe('uplink_stalled_seconds', 'Seconds without progress while messages wait', () => progress.stalledSeconds);
    observe('unacknowledged', 'Messages from the broker that are not on the disk yet', () => spool.pendingCount);
    observe('commands_unanswered', 'Commands that wait for their PUBACK', () => broker.connection?.unanswered ?? 0);
    observe('broker_connected', '1 while connected to the broker', () => broker.isConnected);
    observe('link_connected', '1 while the Worker answers on the link', () => this.#link.isConnected);
    observe('standby_login_failed', '1 while the broker would not let this standby in', () => loginCheck.hasFailed);
    observe('active', '1 while this bridge is the active one', () => this.#role === 'active');
  }
}
