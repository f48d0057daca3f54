// Where bridges dial in: hands publishes to the active one and promotes a standby when that is gone or has no broker.
// Keeps which instance was active last and which sessions the broker had. Roles are decided in bridge-roles.ts, what a session
// says in broker-sessions.ts; the sockets are in bridge-sockets.ts. A command link is another object of this class, to which the
// active bridge alone dials in.
import { DurableObject } from 'cloudflare:workers';
import { readConfig } from '../../config.ts';
import { parseJson } from '../../domain/json.ts';
import type { PublishOutcome } from '../../domain/publish-outcome.ts';
import { log } from '../../log.ts';
import {
  bridgeFrameSchema,
  linkCloseReasons,
  linkPing,
  linkPong,
  type BridgeFrame,
  type BrokerSession,
  type StallReason,
  type WorkerFrame,
} from '../../protocol/bridge.ts';
import {
  avoidedForMs,
  conflictWith,
  isInactive,
  lacksHello,
  lighterThan,
  mustMakeWay,
  nextCheckAtMs,
  releasedWithinMs,
  successorAmong,
} from './bridge-roles.ts';
import {
  firstReconciliation,
  nextReconciliation,
  noteSession,
  type KnownSessions,
  type Reconciliation,
} from './broker-sessions.ts';
import { closeBridge, readAttachment, sendFrame, writeAttachment, type Attachment } from './bridge-sockets.ts';
import { answerClose } from '../calls/open-socket.ts';
import { PendingPublishes, type PublishRequest, type Recipient } from './pending-publishes.ts';
import { ServedProducts } from './served-products.ts';
import { ShareCounts } from './share-counts.ts';
import { shareOfBridgeLink } from '../calls/stubs.ts';

type Bridge = Attachment & { socket: WebSocket; lastSeenAtMs: number; load: number };
type RoleCause = 'hello' | 'predecessor_gone' | 'broker_unreachable' | 'balanced';

export type LinkHealth = {
  bridgeConnected: boolean;
  brokerConnected: boolean;
  /** Of the bridge whose uplink stands still longest. */
  stall: { reason: StallReason; seconds: number } | null;
};

const lastActiveKey = 'lastActiveInstance';
const sessionsKey = 'brokerSessions';
const reconciliationKey = 'reconciliation';

export class BrokerLink extends DurableObject<Env> {
  readonly #publishes = new PendingPublishes();
  readonly #counts = new ShareCounts(
    this.ctx.storage.kv,
    readConfig(this.env),
    shareOfBridgeLink(this.ctx.id.name ?? ''),
  );
  readonly #products = new ServedProducts(this.ctx.storage.kv);

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(linkPing, linkPong));
  }

  /** The WebSocket of a bridge. Its secret was checked by the route. */
  override async fetch(): Promise<Response> {
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    const nowMs = Date.now();
    const unknown = { bridgeId: null, instanceId: '', role: null, isBrokerConnected: false, stall: null };
    const noShares = { activeShares: [], avoidedUntilMs: 0, leavingUntilMs: null };
    writeAttachment(server, { ...unknown, ...noShares, openedAtMs: nowMs, changedAtMs: nowMs });
    await this.#planCheck();
    return new Response(null, { status: 101, webSocket: client });
  }

  /** Resolves when the broker has acknowledged, or with the reason why not, at the latest shortly after `expiresAtMs`. */
  publish(request: PublishRequest): Promise<PublishOutcome> {
    return this.#publish(request, this.#recipient());
  }

  /** The same where a bridge that has its broker is connected; otherwise undefined, and nothing happens. */
  async publishIfServed(request: PublishRequest): Promise<PublishOutcome | undefined> {
    const recipient = this.#recipient();
    return recipient && (await this.#publish(request, recipient));
  }

  /** False where no bridge could subscribe to the product's topics by now: its devices would not be heard. */
  serveProduct(productKey: string): Promise<boolean> {
    const active = this.#active();
    const ask =
      active?.isBrokerConnected === true ? (frame: WorkerFrame) => sendFrame(active.socket, frame) : undefined;
    return this.#products.serve(productKey, ask);
  }

  health(): LinkHealth {
    const nowMs = Date.now();
    const active = this.#active();
    const bridgeConnected = active !== undefined && !isInactive(active, nowMs);
    // A standby sends what its own spool holds.
    const stalls = this.#bridges().flatMap(({ stall }) => stall ?? []);
    const [longest] = stalls.sort((one, other) => one.sinceMs - other.sinceMs);
    const stall = longest && {
      reason: longest.reason,
      seconds: Math.max(0, Math.round((nowMs - longest.sinceMs) / 1000)),
    };
    return { bridgeConnected, brokerConnected: bridgeConnected && active.isBrokerConnected, stall: stall ?? null };
  }

  /** How far devices were compared with what the broker knows. */
  readReconciliation(): Reconciliation {
    return this.ctx.storage.kv.get<Reconciliation>(reconciliationKey) ?? firstReconciliation;
  }

  /** The next slice begins after `afterId`, unless the broker has forgotten its sessions meanwhile. */
  continueReconciliation(from: Reconciliation, afterId: number | null): void {
    const { kv } = this.ctx.storage;
    if (this.readReconciliation().forgottenBeforeMs === from.forgottenBeforeMs) {
      kv.put(reconciliationKey, nextReconciliation(from, afterId));
    }
  }

  override async webSocketMessage(socket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    const frame = typeof data === 'string' ? bridgeFrameSchema.safeParse(parseJson(data)).data : undefined;
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
        writeAttachment(socket, {
          ...readAttachment(socket),
          isBrokerConnected: frame.connected,
          changedAtMs: Date.now(),
        });
        await this.#planCheck();
        break;
      case 'uplink':
        log(frame.stall === null ? 'info' : 'error', 'bridge reports its uplink', { bridgeId, ...frame.stall });
        writeAttachment(socket, { ...readAttachment(socket), stall: frame.stall });
        return;
      case 'shares':
        writeAttachment(socket, { ...readAttachment(socket), activeShares: frame.active });
        this.#balance();
        await this.#planCheck();
        return;
      case 'released':
        this.#endLeaving(socket);
        await this.#planCheck();
        break;
      case 'changed':
        if (readAttachment(socket).role === 'active') this.#noteChanged(frame.shares);
        return;
      case 'product-served':
        this.#products.answer(frame.id, frame.isServed);
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
        writeAttachment(socket, { ...readAttachment(socket), isBrokerConnected: false, changedAtMs: Date.now() });
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
    for (const bridge of this.#bridges()) if (lacksHello(bridge, nowMs)) closeBridge(bridge.socket, 'no hello');
    this.#releaseInactive();
    this.#relieveBrokerless();
    for (const { socket, leavingUntilMs } of this.#bridges()) {
      if (leavingUntilMs !== null && leavingUntilMs <= nowMs) this.#endLeaving(socket);
    }
    this.#balance();
    await this.#planCheck();
  }

  async #welcome(socket: WebSocket, hello: Extract<BridgeFrame, { type: 'hello' }>): Promise<void> {
    const { bridgeId, brokerConnected: isBrokerConnected, instanceId = crypto.randomUUID() } = hello;
    const { spoolId, sessionDigest, activeShares = [] } = hello;
    this.#releaseInactive();
    const others = this.#bridges().filter((bridge) => bridge.socket !== socket);
    const isTooOld = this.#counts.shares > 1 && hello.activeShares === undefined;
    const conflict = isTooOld ? 'knowsNoShares' : conflictWith(others, { bridgeId, spoolId, sessionDigest });
    if (conflict !== undefined) {
      closeBridge(socket, linkCloseReasons[conflict]);
      return;
    }
    this.#noteSession(hello.session);
    const former = others.filter((bridge) => bridge.bridgeId === bridgeId);
    const wasActive = former.some(({ role }) => role === 'active');
    const leavingUntilMs = former.find((bridge) => bridge.leavingUntilMs !== null)?.leavingUntilMs ?? null;
    for (const bridge of former) {
      writeAttachment(bridge.socket, { ...readAttachment(bridge.socket), role: null, leavingUntilMs: null });
      closeBridge(bridge.socket, linkCloseReasons.replaced);
    }
    const active = this.#active();
    const isFree = active === undefined && !others.some((bridge) => bridge.leavingUntilMs !== null);
    const role = wasActive || isFree || active?.socket === socket ? 'active' : 'standby';
    const nowMs = Date.now();
    const { openedAtMs, stall, avoidedUntilMs } = readAttachment(socket);
    const known = { bridgeId, instanceId, spoolId, sessionDigest, isBrokerConnected, openedAtMs, stall };
    writeAttachment(socket, { ...known, role, changedAtMs: nowMs, activeShares, avoidedUntilMs, leavingUntilMs });
    logRole(bridgeId, role, 'hello');
    const resumes = role === 'active' && this.#recordActive(instanceId);
    sendFrame(socket, { type: 'welcome', nowMs, role, resumes, ...this.#counts.read() });
    // The instance lost its link only: it answers what it has published from memory, and publishes what it never got.
    if (wasActive) this.#publishes.takeBackAll(instanceId);
    await this.#planCheck();
  }

  #noteSession(session: BrokerSession | undefined): void {
    if (session === undefined) return;
    const { kv } = this.ctx.storage;
    const noted = noteSession(kv.get<KnownSessions>(sessionsKey) ?? [], session, Date.now());
    if (noted === undefined) return;
    kv.put(sessionsKey, noted.sessions);
    if (noted.forgottenBeforeMs === undefined) return;
    log('warn', 'the broker has forgotten its sessions', { before: noted.forgottenBeforeMs });
    kv.put(reconciliationKey, { forgottenBeforeMs: noted.forgottenBeforeMs, afterId: 0 });
  }

  /** Takes the role from a socket; if that was the active one, a standby becomes active. */
  #release(socket: WebSocket): void {
    const attachment = readAttachment(socket);
    writeAttachment(socket, { ...attachment, role: null, leavingUntilMs: null });
    if (attachment.role !== null) log('info', 'bridge gone', { bridgeId: attachment.bridgeId, role: attachment.role });
    if (attachment.role !== 'active' && attachment.leavingUntilMs === null) return;
    const successor = successorAmong(this.#bridges(), Date.now());
    if (successor !== undefined) this.#promote(successor, 'predecessor_gone');
  }

  #promote({ socket, bridgeId, instanceId }: Bridge, cause: RoleCause): void {
    const nowMs = Date.now();
    writeAttachment(socket, { ...readAttachment(socket), role: 'active', changedAtMs: nowMs });
    logRole(bridgeId, 'active', cause);
    const resumes = this.#recordActive(instanceId);
    sendFrame(socket, { type: 'role', nowMs, role: 'active', resumes, ...this.#counts.read() });
    this.#publishes.sendWaiting(this.#recipient());
  }

  /** True where no other instance was active since this one was. */
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
    if (active === undefined || !mustMakeWay(active, nowMs)) return;
    const successor = successorAmong(this.#bridges(), nowMs);
    if (successor === undefined) return;
    const avoidedUntilMs = nowMs + avoidedForMs;
    demote(active, 'broker_unreachable', { avoidedUntilMs }, nowMs);
    this.#promote(successor, 'broker_unreachable');
  }

  /** Asks the active bridge to leave where another one has less to do; that one becomes active when it has. */
  #balance(): void {
    const nowMs = Date.now();
    const active = this.#active();
    const { share } = this.#counts;
    if (active === undefined || share === undefined) return;
    if (lighterThan(active, share, this.#bridges(), nowMs) === undefined) return;
    const leavingUntilMs = nowMs + releasedWithinMs;
    demote(active, 'balanced', { leavingUntilMs }, nowMs);
  }

  #endLeaving(socket: WebSocket): void {
    const attachment = readAttachment(socket);
    if (attachment.leavingUntilMs === null) return;
    writeAttachment(socket, { ...attachment, leavingUntilMs: null });
    const successor = this.#active() === undefined ? successorAmong(this.#bridges(), Date.now()) : undefined;
    if (successor !== undefined) this.#promote(successor, 'balanced');
  }

  #releaseInactive(): void {
    for (const bridge of this.#bridges()) {
      if (bridge.role === null || !isInactive(bridge, Date.now())) continue;
      closeBridge(bridge.socket, 'silent');
      this.#release(bridge.socket);
    }
  }

  async #publish(request: PublishRequest, recipient: Recipient | undefined): Promise<PublishOutcome> {
    const outcome = await this.#publishes.publish(request, recipient);
    if (!outcome.ok) log('warn', 'message not published', { topic: request.topic, reason: outcome.reason });
    return outcome;
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
      return { ...attachment, socket, lastSeenAtMs, load: attachment.activeShares.length };
    });
  }

  /** The sessions with the broker are those of this number of shares now: every bridge is told, and the shares begin. */
  #noteChanged(shares: number): void {
    if (!this.#counts.noteChanged(shares)) return;
    log('info', 'the number of shares has changed', { shares });
    const nowMs = Date.now();
    for (const { socket, role } of this.#bridges()) {
      if (role !== null)
        sendFrame(socket, { type: 'role', nowMs, role, resumes: role === 'active', ...this.#counts.read() });
    }
  }

  async #planCheck(): Promise<void> {
    const atMs = nextCheckAtMs(this.#bridges(), Date.now());
    if (atMs !== undefined) await this.ctx.storage.setAlarm(atMs);
  }
}

function demote({ socket, bridgeId }: Bridge, cause: RoleCause, change: Partial<Attachment>, nowMs: number): void {
  writeAttachment(socket, { ...readAttachment(socket), role: 'standby', changedAtMs: nowMs, ...change });
  logRole(bridgeId, 'standby', cause);
  sendFrame(socket, { type: 'role', nowMs, role: 'standby' });
}

function logRole(bridgeId: string | null, role: 'active' | 'standby', cause: RoleCause): void {
  log('info', 'bridge role', { bridgeId, role, cause });
}
