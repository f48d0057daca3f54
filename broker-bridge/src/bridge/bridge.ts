// A bridge: as many shares of the uplink as the Worker says, its metrics and its health. It must not know what happens
// inside of a share.
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { BridgeConfig } from '../config.ts';
import { runDetached } from '../../../node-service/detached.ts';
import { createHealthServer, type Readiness } from '../../../node-service/health.ts';
import type { Log } from '../../../node-service/log.ts';
import { createMetrics, type Metrics } from '../metrics.ts';
import { Share } from './share.ts';
import type { Counts } from './worker-link.ts';

/** After a change of the sessions. */
const repeatsWithinMs = 600_000;

export class Bridge {
  readonly #config: BridgeConfig;
  readonly #log: Log;
  readonly #metrics: Metrics = createMetrics();
  readonly #health: Server;
  #shares: Share[] = [];
  /** Shares that there are no more, with messages in their spools. */
  #former: Share[] = [];
  /** How many the Worker has; 1 until it says so. */
  #count = 1;
  #activeShares = '';
  #mayRepeatUntilMs = 0;
  #isStopping = false;
  #change: Promise<void> = Promise.resolve();
  #reportState: () => void = () => undefined;
  #reportRefusal: (remedy: string) => void = () => undefined;

  /** Throws when a spool cannot be opened or the health port is taken. */
  static async start(config: BridgeConfig, log: Log): Promise<Bridge> {
    const bridge = new Bridge(config, log);
    const first = await bridge.#open(0, true);
    if (config.health !== undefined) {
      const { host, port } = config.health;
      await once(bridge.#health.listen(port, host), 'listening');
      log.info('health is served', { host, port: (bridge.#health.address() as AddressInfo).port });
    }
    bridge.#shares = [first];
    return bridge;
  }

  private constructor(config: BridgeConfig, log: Log) {
    this.#config = config;
    this.#log = log;
    this.#health = createHealthServer(this.#metrics.registry, log, () => this.#readReadiness());
    this.#observe();
  }

  get state() {
    const isActive = this.#active.length > 0;
    const isConnected = isActive && this.#active.every(({ broker }) => broker.isConnected);
    const hasRoles = this.#shares.length === this.#count && this.#shares.every(({ role }) => role !== null);
    return {
      broker: isConnected ? 'connected' : 'disconnected',
      link: this.#isLinked ? 'connected' : 'disconnected',
      role: isActive ? 'active' : hasRoles ? 'standby' : null,
      ...(this.#count > 1 && { shares: this.#readActiveShares() }),
    };
  }

  onStateChange(report: () => void): void {
    this.#reportState = report;
  }

  /** The Worker does not let this bridge in, and never did. */
  onRefused(report: (remedy: string) => void): void {
    this.#reportRefusal = report;
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#change;
    await this.#stopShares();
    this.#health.close();
    this.#health.closeAllConnections();
    this.#log.info('left', { depth: sumOf(this.#all, ({ spool }) => spool.depth) });
  }

  get #active(): Share[] {
    return this.#shares.filter(({ role }) => role === 'active');
  }

  get #all(): Share[] {
    return [...this.#shares, ...this.#former];
  }

  get #isLinked(): boolean {
    return this.#shares.length === this.#count && this.#shares.every(({ isLinked }) => isLinked);
  }

  #readActiveShares(): number[] {
    return this.#active.map(({ number }) => number);
  }

  #open(number: number, isServed: boolean): Promise<Share> {
    return Share.start(
      {
        config: this.#config,
        log: this.#log,
        metrics: this.#metrics,
        number,
        shares: this.#count,
        readActiveShares: () => this.#readActiveShares(),
        onChange: () => this.#noteChange(),
        onShares: (shares) => this.#setCount(shares),
        onCounts: (counts, from) => this.#noteCounts(counts, from),
        mayRepeat: () => performance.now() < this.#mayRepeatUntilMs,
        onRefused: (remedy) => this.#reportRefusal(remedy),
      },
      isServed,
    );
  }

  /** Of a link of the present number of shares. */
  #noteCounts({ shares, formerShares, changedMsAgo }: Counts, number: number): void {
    if (number > 0 || shares !== this.#count) return;
    if (changedMsAgo !== undefined) this.#mayRepeatUntilMs = performance.now() + repeatsWithinMs - changedMsAgo;
    // The others begin when the sessions are those of this number.
    if (formerShares === undefined && this.#shares.length < shares) this.#changeLater(() => this.#openOthers());
  }

  #changeLater(run: () => Promise<void>): void {
    this.#change = this.#change.then(run);
    runDetached(this.#change);
  }

  /** The shares of another number of shares have other sessions with the broker, and other products. */
  #setCount(count: number): void {
    if (this.#isStopping || count === this.#count) return;
    this.#log.info('shares of the uplink', { shares: count });
    this.#count = count;
    this.#changeLater(() => this.#reopen());
  }

  async #reopen(): Promise<void> {
    await this.#stopShares();
    this.#shares = [];
    this.#former = [];
    this.#activeShares = '';
    if (this.#isStopping) return;
    this.#shares.push(await this.#open(0, true));
    for (const number of this.#numbersOnDisk()) {
      if (number >= this.#count) this.#former.push(await this.#open(number, false));
    }
    this.#noteChange();
  }

  async #openOthers(): Promise<void> {
    const count = this.#count;
    while (!this.#isStopping && count === this.#count && this.#shares.length < count) {
      this.#shares.push(await this.#open(this.#shares.length, true));
    }
    this.#noteChange();
  }

  #numbersOnDisk(): number[] {
    return readdirSync(this.#config.spool.dir).flatMap((name) => {
      const number = /^share-(\d{1,2})$/.exec(name)?.[1];
      return number === undefined ? [] : [Number(number)];
    });
  }

  async #stopShares(): Promise<void> {
    await Promise.all(this.#all.map((share) => share.stop()));
  }

  #noteChange(): void {
    const active = this.#readActiveShares();
    if (this.#count > 1 && active.join() !== this.#activeShares) {
      this.#activeShares = active.join();
      for (const share of this.#shares) share.tellActiveShares(active);
    }
    this.#reportState();
  }

  #readReadiness(): Readiness {
    const isFit = ({ role, loginCheck, broker }: Share): boolean =>
      role === 'standby' ? !loginCheck.hasFailed : broker.isSubscribed;
    const isAuthorized = this.#all.every(({ uplink }) => !uplink.isUnauthorized);
    const stalled = this.#all.find(({ stallWatch }) => stallWatch.stall !== null)?.stallWatch;
    const uplink =
      stalled === undefined
        ? { uplink: 'moving' }
        : {
            uplink: 'stalled',
            uplinkReason: stalled.stall?.reason ?? '',
            uplinkStalledSeconds: stalled.stalledSeconds,
          };
    const { shares, ...state } = this.state;
    const isSubscribed = this.#active.length > 0 && this.#active.every(({ broker }) => broker.isSubscribed);
    return {
      isReady: this.#isLinked && this.#shares.every(isFit) && isAuthorized && stalled === undefined,
      details: {
        ...state,
        ...(shares !== undefined && { shares: shares.join() }),
        subscribed: isSubscribed,
        ...(state.role === 'standby' && { standbyLogin: this.#shares[0]?.loginCheck.state ?? 'unknown' }),
        authorized: isAuthorized,
        ...uplink,
      },
    };
  }

  #observe(): void {
    const { observe } = this.#metrics;
    const sum = (read: (share: Share) => number) => () => sumOf(this.#all, read);
    const most = (read: (share: Share) => number) => () => Math.max(0, ...this.#all.map(read));
    observe(
      'spool_depth',
      'Messages on the disk that the Worker has not answered for',
      sum(({ spool }) => spool.depth),
    );
    observe(
      'spool_bytes',
      'Bytes of these messages, which SPOOL_MAX_BYTES limits',
      sum(({ spool }) => spool.bytes),
    );
    observe(
      'spool_full',
      '1 while the spool takes no messages',
      most(({ spool }) => Number(spool.isFull)),
    );
    observe(
      'spool_oldest_age_seconds',
      'Age of the oldest message in the spool',
      most(({ uplink }) => uplink.progress.oldestAgeMs / 1000),
    );
    observe(
      'uplink_stalled_seconds',
      'For how long no message left the spool while some wait there',
      most(({ stallWatch }) => stallWatch.stalledSeconds),
    );
    observe(
      'unacknowledged',
      'Messages from the broker that are not on the disk yet',
      sum(({ spool }) => spool.pendingCount),
    );
    observe(
      'commands_unanswered',
      'Commands not acknowledged by the broker yet',
      sum(({ broker }) => broker.unanswered),
    );
    observe('broker_connected', '1 while connected to the broker', () => this.state.broker === 'connected');
    observe('link_connected', '1 while the Worker answers on the link', () => this.#isLinked);
    observe(
      'standby_login_failed',
      '1 while the broker would not let this standby in',
      most(({ loginCheck }) => Number(loginCheck.hasFailed)),
    );
    observe(
      'command_links_connected',
      'Command links that the Worker answers on',
      sum(({ commandLinks }) => commandLinks.connectedCount),
    );
    observe('active', '1 while this bridge is the active one', () => this.#active.length > 0);
    observe('active_shares', 'For how many shares of the uplink this bridge is active', () => this.#active.length);
  }
}

function sumOf(shares: Share[], read: (share: Share) => number): number {
  return shares.reduce((sum, share) => sum + read(share), 0);
}
