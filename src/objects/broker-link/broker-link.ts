// The bridges' link: hands publishes to the active one and promotes a standby when that is gone or has no broker.
// Keeps which instance was active last and which sessions the broker had: if it has lost one of the bridges' own, it has forgotten
// all, those of devices included. bridge-roles.ts decides on roles.
import { DurableObject } from 'cloudflare:workers';
import { parseJson } from '../../domain/json.ts';
import type { PublishOutcome } from '../../domain/publish-outcome.ts';
import { log } from '../../log.ts';
import * as protocol from '../../protocol/bridge.ts';
import * as roles from './bridge-roles.ts';
import { answerClose, closeIfOpen, sendIfOpen } from '../calls/open-socket.ts';
import { PendingPublishes, type PublishRequest, type Recipient } from './pending-publishes.ts';

type Attachment = Omit<roles.BridgeState, 'lastSeenAtMs'> & {
  bridgeId: string | null;
  instanceId: string;
  spoolId: string;
  sessionDigest: string;
  /** Why the bridge's uplink stands still, and since when; null while it moves. */
  stall: protocol.UplinkStall | null;
};
type CloseCause =
  | 'unreadable frame'
  | 'no hello'
  | 'silent'
  | (typeof protocol.linkCloseReasons)[keyof typeof protocol.linkCloseReasons];
type Bridge = Attachment & { socket: WebSocket; lastSeenAtMs: number };
type RoleCause = 'hello' | 'predecessor_gone' | 'broker_unreachable';

export type LinkHealth = {
  bridgeConnected: boolean;
  brokerConnected: boolean;
  /** The longest stall among the bridges. */
  stall: { reason: protocol.StallReason; seconds: number } | null;
};

/** The last connection to the broker under each session name, newest last, and when it was reported. */
type KnownSessions = readonly (readonly [name: string, connectionId: string, reportedAtMs: number])[];

/** Devices are gone through in the order of their rows, again and again. */
type Reconciliation = {
  /** What the broker reported before that is in doubt; null if nothing is. */
  forgottenBeforeMs: number | null;
  afterId: number;
};

const firstReconciliation: Reconciliation = { forgottenBeforeMs: null, afterId: 0 };

const maxSessions = 8;
const lastActiveKey = 'lastActiveInstance';
const sessionsKey = 'brokerSessions';
const reconciliationKey = 'reconciliation';

export class BrokerLink extends DurableObject<Env> {
  readonly #publishes = new PendingPublishes();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(protocol.linkPing, protocol.linkPong));
  }

  /** The WebSocket of a bridge. Its secret was checked by the route. */
  override async fetch(): Promise<Response> {
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    const nowMs = Date.now();
    const unknown = { bridgeId: null, instanceId: '', spoolId: '', sessionDigest: '', role: null, stall: null };
    const attachment: Attachment = { ...unknown, isBrokerConnected: false, openedAtMs: nowMs, changedAtMs: nowMs };
    server.serializeAttachment(attachment);
    await this.#planCheck();
    return new Response(null, { status: 101, webSocket: client });
  }

  /** Resolves when the broker has acknowledged, or with the reason why not, at the latest shortly after `expiresAtMs`. */
  async publish(request: PublishRequest): Promise<PublishOutcome> {
    const outcome = await this.#publishes.publish(request, this.#recipient());
    if (!outcome.ok) log('warn', 'message not published', { topic: request.topic, reason: outcome.reason });
    return outcome;
  }

  health(): LinkHealth {
    const nowMs = Date.now();
    const active = this.#active();
    const bridgeConnected = active !== undefined && !roles.isInactive(active, nowMs);
    // A standby sends what its own spool holds.
    const stalls = this.#bridges().flatMap(({ stall }) => stall ?? []);
    const [longest] = stalls.sort((a, b) => a.sinceMs - b.sinceMs);
    const seconds = Math.max(0, Math.round((nowMs - (longest?.sinceMs ?? nowMs)) / 1000));
    const stall = longest === undefined ? null : { reason: longest.reason, seconds };
    return { bridgeConnected, brokerConnected: bridgeConnected && active.isBrokerConnected, stall };
  }

  /** How far devices were compared with what the broker knows. */
  readReconciliation(): Reconciliation {
    return this.ctx.storage.kv.get<Reconciliation>(reconciliationKey) ?? firstReconciliation;
  }

  /** The next slice begins after `afterId`, null after the last one, unless the broker has forgotten its sessions meanwhile. */
  continueReconciliation(from: Reconciliation, afterId: number | null): void {
    const { kv } = this.ctx.storage;
    if (this.readReconciliation().forgottenBeforeMs === from.forgottenBeforeMs) {
      kv.put(reconciliationKey, afterId === null ? firstReconciliation : { ...from, afterId });
    }
  }

  override async webSocketMessage(socket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    const frame = typeof data === 'string' ? protocol.bridgeFrameSchema.safeParse(parseJson(data)).data : undefined;
    if (frame === undefined) {
      closeBridge(socket, 'unreadable frame');
      return;
    }
    const { instanceId, bridgeId } = readAttachment(socket);
    switch (frame.type) {
      case 'hello':
        await this.#welcome(socket, frame);
        break;
      case 'broker':
        log('info', 'bridge reports its broker connection', { bridgeId, isConnected: frame.connected });
        this.#noteSession(frame.session);
        changeAttachment(socket, { isBrokerConnected: frame.connected, changedAtMs: Date.now() });
        await this.#planCheck();
        break;
      case 'uplink':
        log(frame.stall === null ? 'info' : 'error', 'bridge reports its uplink', { bridgeId, ...frame.stall });
        changeAttachment(socket, { stall: frame.stall });
        return;
      case 'published':
        this.#publishes.answer(frame.id, instanceId, { hasSubscribers: frame.hasSubscribers, reply: frame.reply });
        return;
      case 'not-published':
        if (frame.reason !== 'broker_disconnected' && frame.reason !== 'standby') {
          this.#publishes.answer(frame.id, instanceId, { reason: frame.reason });
          return;
        }
        if (!this.#publishes.takeBack(frame.id, instanceId)) return;
        // The bridge reports when it has its broker again.
        log('warn', 'bridge cannot publish', { bridgeId, reason: frame.reason });
        changeAttachment(socket, { isBrokerConnected: false, changedAtMs: Date.now() });
        break;
    }
    this.#publishes.sendWaiting(this.#recipient());
  }

  override webSocketClose(socket: WebSocket, code: number): void {
    answerClose(socket, code);
    this.#release(socket);
  }

  override webSocketError(socket: WebSocket, error: unknown): void {
    log('warn', 'bridge socket failed', { bridgeId: readAttachment(socket).bridgeId, error: String(error) });
    this.#release(socket);
  }

  /** Planned only while a standby could be promoted or a socket lacks its `hello`; otherwise the object sleeps. */
  override async alarm(): Promise<void> {
    const nowMs = Date.now();
    for (const bridge of this.#bridges()) if (roles.lacksHello(bridge, nowMs)) closeBridge(bridge.socket, 'no hello');
    this.#releaseInactive();
    this.#relieveBrokerless();
    await this.#planCheck();
  }

  async #welcome(socket: WebSocket, hello: Extract<protocol.BridgeFrame, { type: 'hello' }>): Promise<void> {
    const { bridgeId, instanceId, spoolId, sessionDigest, brokerConnected: isBrokerConnected } = hello;
    const identity = { bridgeId, instanceId, spoolId, sessionDigest };
    this.#releaseInactive();
    const others = this.#bridges().filter((bridge) => bridge.socket !== socket);
    const conflict = roles.conflictWith(others, identity);
    if (conflict !== undefined) {
      closeBridge(socket, protocol.linkCloseReasons[conflict]);
      return;
    }
    this.#noteSession(hello.session);
    const former = others.filter((bridge) => bridge.bridgeId === bridgeId);
    const wasActive = former.some(({ role }) => role === 'active');
    for (const bridge of former) {
      changeAttachment(bridge.socket, { role: null });
      closeBridge(bridge.socket, protocol.linkCloseReasons.replaced);
    }
    const active = this.#active();
    const role = active === undefined || active.socket === socket ? 'active' : 'standby';
    changeAttachment(socket, { ...identity, isBrokerConnected });
    setRole(socket, role, 'hello', role === 'active' && this.#recordActive(instanceId));
    // The instance lost its link only: it answers what it has published from memory, and publishes what it never got.
    if (wasActive) this.#publishes.takeBackAll(instanceId);
    await this.#planCheck();
  }

  #noteSession(session: protocol.BrokerSession | undefined): void {
    if (session === undefined) return;
    const { kv } = this.ctx.storage;
    const noted = noteSession(kv.get<KnownSessions>(sessionsKey) ?? [], session, Date.now());
    if (noted === undefined) return;
    kv.put(sessionsKey, noted.sessions);
    if (noted.forgottenBeforeMs === undefined) return;
    log('warn', 'the broker has forgotten its sessions', { before: noted.forgottenBeforeMs });
    kv.put(reconciliationKey, { forgottenBeforeMs: noted.forgottenBeforeMs, afterId: 0 });
  }

  #release(socket: WebSocket): void {
    const { role, bridgeId } = readAttachment(socket);
    changeAttachment(socket, { role: null });
    if (role !== null) log('info', 'bridge gone', { bridgeId, role });
    if (role !== 'active') return;
    const successor = roles.successorAmong(this.#bridges(), Date.now());
    if (successor !== undefined) this.#promote(successor, 'predecessor_gone');
  }

  #promote({ socket, instanceId }: Bridge, cause: RoleCause): void {
    setRole(socket, 'active', cause, this.#recordActive(instanceId));
    this.#publishes.sendWaiting(this.#recipient());
  }

  /** True if no other instance was active since this one was. */
  #recordActive(instanceId: string): boolean {
    this.#publishes.giveUpAllBut(instanceId);
    const { kv } = this.ctx.storage;
    if (kv.get(lastActiveKey) === instanceId) return true;
    kv.put(lastActiveKey, instanceId);
    return false;
  }

  #relieveBrokerless(): void {
    const nowMs = Date.now();
    const active = this.#active();
    if (active === undefined || !roles.mustMakeWay(active, nowMs)) return;
    const successor = roles.successorAmong(this.#bridges(), nowMs);
    if (successor === undefined) return;
    setRole(active.socket, 'standby', 'broker_unreachable', false);
    this.#promote(successor, 'broker_unreachable');
  }

  #releaseInactive(): void {
    for (const bridge of this.#bridges()) {
      if (bridge.role === null || !roles.isInactive(bridge, Date.now())) continue;
      closeBridge(bridge.socket, 'silent');
      this.#release(bridge.socket);
    }
  }

  #recipient(): Recipient | undefined {
    const active = this.#active();
    if (active?.isBrokerConnected !== true) return undefined;
    const { socket, instanceId } = active;
    return { instanceId, send: (frame) => sendFrame(socket, frame) };
  }

  #active(): Bridge | undefined {
    return this.#bridges().find(({ role }) => role === 'active');
  }

  #bridges(): Bridge[] {
    const sockets = this.ctx.getWebSockets().filter((socket) => socket.readyState === WebSocket.OPEN);
    return sockets.map((socket) => {
      const attachment = readAttachment(socket);
      const pingedAtMs = this.ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0;
      const lastSeenAtMs = Math.max(pingedAtMs, attachment.openedAtMs);
      return { ...attachment, socket, lastSeenAtMs };
    });
  }

  async #planCheck(): Promise<void> {
    const atMs = roles.nextCheckAtMs(this.#bridges());
    if (atMs !== undefined) await this.ctx.storage.setAlarm(atMs);
  }
}

function setRole(socket: WebSocket, role: 'active' | 'standby', cause: RoleCause, resumes: boolean): void {
  const nowMs = Date.now();
  changeAttachment(socket, { role, changedAtMs: nowMs });
  log('info', 'bridge role', { bridgeId: readAttachment(socket).bridgeId, role, cause });
  sendFrame(socket, { type: 'role', nowMs, role, resumes });
}

function readAttachment(socket: WebSocket): Attachment {
  return socket.deserializeAttachment() as Attachment;
}

function changeAttachment(socket: WebSocket, change: Partial<Attachment>): void {
  socket.serializeAttachment({ ...readAttachment(socket), ...change });
}

function sendFrame(socket: WebSocket, frame: protocol.WorkerFrame): void {
  sendIfOpen(socket, JSON.stringify(frame));
}

function closeBridge(socket: WebSocket, cause: CloseCause): void {
  log('warn', 'bridge disconnected', { bridgeId: readAttachment(socket).bridgeId, cause });
  closeIfOpen(socket, 1008, cause);
}

/** undefined for a connection that was noted before: a bridge reports it again after its link was lost. */
function noteSession(
  known: KnownSessions,
  { name, connectionId, isPresent, readUntilMsAgo }: protocol.BrokerSession,
  nowMs: number,
): { sessions: KnownSessions; forgottenBeforeMs: number | undefined } | undefined {
  const before = known.find(([knownName]) => knownName === name);
  if (before?.[1] === connectionId) return undefined;
  const others = known.filter((session) => session !== before).slice(1 - maxSessions);
  const isForgotten = before !== undefined && !isPresent;
  return {
    sessions: [...others, [name, connectionId, nowMs]],
    forgottenBeforeMs: isForgotten ? Math.max(before[2], nowMs - readUntilMsAgo) : undefined,
  };
}
