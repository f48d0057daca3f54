// A bridge: joins its parts, from the session with the broker to its link with the Worker. Holds what each part is told when
// broker, Worker or role change, the order in which they stop, and what health and metrics show. It must hold no other rules.
import { randomUUID } from 'node:crypto';
import { statfsSync } from 'node:fs';
import { runDetached } from '../../../node-service/detached.ts';
import { serveHealth, type Readiness } from '../../../node-service/health.ts';
import type { Log } from '../../../node-service/log.ts';
import { createBroker } from '../broker/broker.ts';
import type { BridgeConfig } from '../config.ts';
import { createDownlink } from '../downlink/downlink.ts';
import { Deliveries } from '../intake/deliveries.ts';
import { createFloodGate } from '../intake/flood-gate.ts';
import { createIntake } from '../intake/intake.ts';
import { createMetrics } from '../metrics.ts';
import { openSpool } from '../spool/spool.ts';
import { DiskRefusal } from '../spool/thread.ts';
import { createUplinkClient } from '../uplink/client.ts';
import { openDeadLetters } from '../uplink/dead-letters.ts';
import { createUplink } from '../uplink/uplink.ts';
import { WorkerLink, type BrokerState, type Role } from './worker-link.ts';

const lockWaitMs = 15_000;
const commandDrainMs = 1000;
const flushMs = 1000;
const uplinkDrainMs = 5000;

/** @throws Error if the spool is damaged or another bridge's, or the health port is taken */
export async function startBridge(config: BridgeConfig, log: Log) {
  const opening = openSpool({ ...config.spool, bridgeId: config.bridgeId, log, lockWaitMs });
  const { spool, deliveries } = await opening.catch((error: unknown) => {
    if (!(error instanceof DiskRefusal)) throw error;
    log.error('the spool cannot be opened: messages wait at the broker', { alarm: true, cause: error.message });
    // What starts it again is the retry: the disk may have room by then.
    process.exit(1);
  });
  let session: { connectionId: string; isPresent: boolean; readUntilMs: number } | null = null;
  /** Null until the Worker assigns a role. */
  let role: Role | null = null;
  let isStopping = false;
  const metrics = createMetrics();
  const floodGate = createFloodGate(config.rates, metrics);
  const intake = createIntake({ spool, deliveries: new Deliveries(deliveries), metrics, floodGate });
  const uplink = createUplink({
    spool,
    client: createUplinkClient(config.workerUrl, config.bridgeSecret),
    deadLetters: openDeadLetters(config.deadLetters),
    log,
    metrics,
    floodGate,
    ...config.uplink,
    onStall: (stall) => link.send({ type: 'uplink', stall }),
  });
  const broker = createBroker(config.mqtt, log, {
    onSession: (isPresent) => {
      session = { connectionId: randomUUID(), isPresent, readUntilMs: intake.readUntilMs() };
      intake.noteSession(isPresent, link.isRoleSure);
    },
    onMessage: (connection, message, proceed) => intake.take(connection, message, proceed),
    onConnectedChange: noteBrokerChange,
    onRetry: () => metrics.reconnects.inc({ peer: 'broker' }),
    // Only the Worker knows whether the session should be ours. Without a link it says so with the next link.
    onTakenOver: () => link.restart(),
  });
  const link = new WorkerLink({
    config,
    spoolId: spool.spoolId,
    log,
    readBroker,
    onRole: setRole,
    onPublish: (frame) => downlink.take(frame),
    onConnectedChange: noteLinkChange,
    onRetry: () => metrics.reconnects.inc({ peer: 'worker' }),
    onRefused: (remedy) => bridge.onRefused(remedy),
  });
  const downlink = createDownlink({ broker, link, log, metrics });
  const { progress } = uplink;
  const { observe } = metrics;
  observe('spool_depth', 'Messages on the disk that the Worker has not answered for', () => spool.depth);
  observe('spool_bytes', 'Bytes of these messages, which SPOOL_MAX_BYTES limits', () => spool.bytes);
  observe('spool_full', '1 while the spool takes no messages', spool.isFull);
  observe('disk_free_ratio', 'Share of the disk of SPOOL_DIR that is free', () => {
    const { bavail, blocks } = statfsSync(config.spool.dir);
    return bavail / blocks;
  });
  observe('spool_oldest_age_seconds', 'Age of the oldest message in the spool', () => progress.oldestAgeMs() / 1000);
  observe('uplink_stalled_seconds', 'Seconds without progress while messages wait', progress.stalledSeconds);
  observe('unacknowledged', 'Messages from the broker that are not on the disk yet', spool.pendingCount);
  observe('commands_unanswered', 'Commands that wait for their PUBACK', broker.unanswered);
  observe('broker_connected', '1 while connected to the broker', broker.isConnected);
  observe('link_connected', '1 while the Worker answers on the link', () => link.isConnected);
  observe('active', '1 while this bridge is the active one', () => role === 'active');
  const bridge = {
    onStateChange: (): void => undefined,
    /** The Worker does not let this bridge in, and never did. */
    onRefused: (_remedy: string): void => undefined,
    state: readState,
    stop,
  };
  const endHealth = await serveHealth(config.health, metrics.registry, log, readReadiness);
  uplink.start();
  link.start();
  return bridge;

  function readState() {
    return {
      broker: broker.isConnected() ? 'connected' : 'disconnected',
      link: link.isConnected ? 'connected' : 'disconnected',
      role,
    };
  }

  /** Commands stop first, then the broker, so that a standby can take over while the last messages go up. */
  async function stop(): Promise<void> {
    isStopping = true;
    await downlink.stop(commandDrainMs);
    intake.stop();
    await spool.flush(flushMs);
    await broker.stop();
    await link.stop();
    await uplink.drain(uplinkDrainMs);
    await spool.close();
    endHealth();
    log.info('left', { depth: spool.depth });
  }

  function setRole(newRole: Role, resumes: boolean): void {
    // Promoted while stopping: the session is for the next bridge.
    if (isStopping) return;
    if (newRole !== role) log.info('role', { role: newRole });
    role = newRole;
    if (!resumes) intake.noteOtherBridge();
    downlink.setRole(role);
    if (role === 'active') broker.start(resumes);
    else runDetached(broker.stop());
    bridge.onStateChange();
  }

  function noteBrokerChange(isConnected: boolean): void {
    if (!isConnected) intake.noteConnectionEnd();
    link.send({ type: 'broker', ...readBroker() });
    downlink.refuseWaiting();
    bridge.onStateChange();
  }

  function readBroker(): BrokerState {
    if (!broker.isConnected() || session === null) return { connected: false };
    const { connectionId, isPresent, readUntilMs } = session;
    const readUntilMsAgo = Math.max(0, Date.now() - readUntilMs);
    return { connected: true, session: { name: config.sessionDigest, connectionId, isPresent, readUntilMsAgo } };
  }

  function noteLinkChange(isConnected: boolean, lastFrameAtMs: number): void {
    broker.setWorkerReachable(isConnected);
    if (isConnected) {
      progress.report();
      uplink.resume();
    }
    downlink.noteLinkChange(isConnected, lastFrameAtMs);
    bridge.onStateChange();
  }

  function readReadiness(): Readiness {
    const stall = progress.findStall();
    const isAuthorized = !uplink.isUnauthorized();
    const isSubscribed = broker.isSubscribed();
    return {
      isReady: link.isConnected && (role === 'standby' || isSubscribed) && isAuthorized && stall === null,
      details: {
        ...readState(),
        subscribed: isSubscribed,
        authorized: isAuthorized,
        uplink: stall === null ? 'moving' : 'stalled',
        ...(stall !== null && { uplinkReason: stall.reason, uplinkStalledSeconds: progress.stalledSeconds() }),
      },
    };
  }
}
