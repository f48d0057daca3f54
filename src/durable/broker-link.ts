// Where bridges dial in: hands publishes to the active one and promotes a standby when it goes or has no broker. Keeps
// what its sockets carry and who was active last; a publish lives in memory while its caller waits, and is never sent
// after its expiry.
import { DurableObject } from 'cloudflare:workers';
import { z } from 'zod';
import type { PublishOutcome } from '../domain/publish-outcome.ts';
import { bridgeFrameSchema, linkPing, linkPong, type BridgeFrame, type WorkerFrame } from '../protocol/bridge.ts';

type PublishRequest = { topic: string; payload: string; expiresAtMs: number; messageExpirySeconds?: number };

const attachmentSchema = z.object({
  bridgeId: z.string().nullable(),
  instanceId: z.string(),
  role: z.enum(['active', 'standby']).nullable(),
  isBrokerConnected: z.boolean(),
  openedAtMs: z.number(),
  /** When it got its role, or its connection with the broker last came or went. */
  changedAtMs: z.number(),
});
type Attachment = z.infer<typeof attachmentSchema>;
type Bridge = { socket: WebSocket; attachment: Attachment };

type Pending = {
  frame: Omit<Extract<WorkerFrame, { type: 'publish' }>, 'messageExpirySeconds'>;
  /** The instance of a bridge that has it; null while none could take it. */
  sentTo: string | null;
  /** Where the broker still has it then, it is to throw it away. */
  discardAtMs: number;
  settle: (outcome: PublishOutcome) => void;
};

/** How much longer than its expiry a caller waits for the bridge's answer. */
const answerGraceMs = 500;
/** A bridge pings every 5 s; one that was silent for this long is gone although its socket looks open. */
const silentAfterMs = 9_000;
const helloWithinMs = 5_000;
/** An active bridge that has had no broker for so long makes way for one that stands by: that one may have a way there. */
const brokerlessForMs = 15_000;
const lastActiveKey = 'lastActiveInstance';

export class BrokerLink extends DurableObject<Env> {
  readonly #pending = new Map<string, Pending>();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(linkPing, linkPong));
  }

  /** The WebSocket of a bridge. Its secret was checked by the route. */
  override async fetch(): Promise<Response> {
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    const nowMs = Date.now();
    const nobody = { bridgeId: null, instanceId: '', role: null, isBrokerConnected: false };
    write(server, { ...nobody, openedAtMs: nowMs, changedAtMs: nowMs });
    await this.#watchSockets();
    return new Response(null, { status: 101, webSocket: client });
  }

  /** Resolves when the broker acknowledged, or says why not; never later than shortly after `expiresAtMs`. */
  async publish(request: PublishRequest): Promise<PublishOutcome> {
    const id = crypto.randomUUID();
    const nowMs = Date.now();
    const lifeMs = request.expiresAtMs - nowMs;
    if (lifeMs <= 0) return { ok: false, reason: 'expired' };
    const messageExpirySeconds = request.messageExpirySeconds ?? Math.ceil(lifeMs / 1000);
    const { promise, resolve } = Promise.withResolvers<PublishOutcome>();
    const pending: Pending = {
      frame: {
        type: 'publish',
        id,
        topic: request.topic,
        payload: request.payload,
        expiresAtMs: request.expiresAtMs,
      },
      sentTo: null,
      discardAtMs: nowMs + messageExpirySeconds * 1000,
      settle: resolve,
    };
    this.#pending.set(id, pending);
    this.#send(pending, this.#active());
    // The caller's request keeps the object awake: this timer holds up no hibernation of its own.
    const timer = setTimeout(
      // What no bridge was given is surely not published; what one has not answered for may be.
      () => resolve({ ok: false, reason: pending.sentTo === null ? 'no_bridge' : 'timeout' }),
      lifeMs + answerGraceMs,
    );
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#pending.delete(id);
    }
  }

  health(): { bridgeConnected: boolean; brokerConnected: boolean } {
    const active = this.#active();
    if (active === undefined || silentAtMs(this.ctx, active) <= Date.now()) {
      return { bridgeConnected: false, brokerConnected: false };
    }
    return { bridgeConnected: true, brokerConnected: active.attachment.isBrokerConnected };
  }

  override async webSocketMessage(socket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    const frame = readFrame(data);
    if (frame === undefined) {
      closeQuietly(socket, 1008, 'unreadable frame');
      return;
    }
    switch (frame.type) {
      case 'hello':
        await this.#welcome(socket, frame);
        break;
      case 'broker':
        write(socket, { ...read(socket), isBrokerConnected: frame.connected, changedAtMs: Date.now() });
        await this.#watchSockets();
        break;
      case 'published':
      case 'not-published':
        this.#settle(socket, frame);
        break;
    }
    this.#sendPending();
  }

  override webSocketClose(socket: WebSocket, code: number): void {
    // Without an answer the bridge waits ten seconds and takes the close for a failure.
    closeQuietly(socket, code === 1005 || code === 1006 ? 1000 : code, '');
    this.#release(socket);
  }

  override webSocketError(socket: WebSocket): void {
    this.#release(socket);
  }

  /** Runs while there is somebody to promote or to turn away; otherwise the object sleeps. */
  override async alarm(): Promise<void> {
    for (const { socket, attachment } of this.#bridges()) {
      if (attachment.role === null && attachment.openedAtMs + helloWithinMs <= Date.now()) {
        closeQuietly(socket, 1008, 'no hello');
      }
    }
    this.#releaseSilent();
    this.#relieveBrokerless();
    await this.#watchSockets();
  }

  async #welcome(socket: WebSocket, hello: Extract<BridgeFrame, { type: 'hello' }>): Promise<void> {
    const former = this.#bridges().filter((one) => one.socket !== socket && one.attachment.bridgeId === hello.bridgeId);
    const wasActive = former.some(({ attachment }) => attachment.role === 'active');
    for (const one of former) {
      write(one.socket, { ...one.attachment, role: null });
      closeQuietly(one.socket, 1008, 'replaced by a newer connection of the same bridge');
    }
    this.#releaseSilent();
    const active = this.#active();
    const role = wasActive || active === undefined || active.socket === socket ? 'active' : 'standby';
    const { bridgeId, brokerConnected: isBrokerConnected, instanceId = crypto.randomUUID() } = hello;
    const nowMs = Date.now();
    write(socket, { ...read(socket), bridgeId, instanceId, role, isBrokerConnected, changedAtMs: nowMs });
    const resumes = role === 'active' && this.#noteActive(instanceId);
    send(socket, { type: 'welcome', nowMs, role, resumes });
    // It lost its network alone and still knows what it has published: it answers that from memory, and publishes what
    // never reached it.
    if (wasActive) this.#unsend(instanceId);
    await this.#watchSockets();
  }

  /** Gives up a socket; the longest-waiting standby becomes active if it was the active one. */
  #release(socket: WebSocket): void {
    const attachment = read(socket);
    write(socket, { ...attachment, role: null });
    if (attachment.role !== 'active') return;
    const next = this.#longestWaiting();
    if (next !== undefined) this.#promote(next);
  }

  #longestWaiting(): Bridge | undefined {
    return this.#bridges()
      .filter(({ attachment }) => attachment.role === 'standby')
      .filter((one) => Date.now() < silentAtMs(this.ctx, one))
      .sort((one, other) => one.attachment.changedAtMs - other.attachment.changedAtMs)[0];
  }

  #promote({ socket, attachment }: Bridge): void {
    const nowMs = Date.now();
    write(socket, { ...attachment, role: 'active', changedAtMs: nowMs });
    const resumes = this.#noteActive(attachment.instanceId);
    send(socket, { type: 'role', nowMs, role: 'active', resumes });
    this.#sendPending();
  }

  /** True where nobody else was active in between. */
  #noteActive(instanceId: string): boolean {
    this.#giveUpAllBut(instanceId);
    const { kv } = this.ctx.storage;
    if (kv.get(lastActiveKey) === instanceId) return true;
    kv.put(lastActiveKey, instanceId);
    return false;
  }

  /** Whether a bridge that went had published what it took nobody can say: callers are told that it was not. */
  #giveUpAllBut(instanceId: string): void {
    for (const { sentTo, settle } of this.#pending.values()) {
      if (sentTo !== null && sentTo !== instanceId) settle({ ok: false, reason: 'bridge_lost' });
    }
  }

  #relieveBrokerless(): void {
    const active = this.#active();
    if (active === undefined || brokerlessAtMs(active) > Date.now()) return;
    const next = this.#longestWaiting();
    if (next === undefined) return;
    const nowMs = Date.now();
    write(active.socket, { ...active.attachment, role: 'standby', changedAtMs: nowMs });
    send(active.socket, { type: 'role', nowMs, role: 'standby' });
    this.#promote(next);
  }

  #releaseSilent(): void {
    for (const bridge of this.#bridges()) {
      if (bridge.attachment.role === null || Date.now() < silentAtMs(this.ctx, bridge)) continue;
      closeQuietly(bridge.socket, 1008, 'silent');
      this.#release(bridge.socket);
    }
  }

  #sendPending(): void {
    const active = this.#active();
    for (const pending of this.#pending.values()) this.#send(pending, active);
  }

  #send(pending: Pending, active: Bridge | undefined): void {
    if (active?.attachment.isBrokerConnected !== true || pending.sentTo !== null) return;
    pending.sentTo = active.attachment.instanceId;
    const messageExpirySeconds = Math.max(1, Math.ceil((pending.discardAtMs - Date.now()) / 1000));
    send(active.socket, { ...pending.frame, messageExpirySeconds });
  }

  #unsend(instanceId: string): void {
    for (const pending of this.#pending.values()) if (pending.sentTo === instanceId) pending.sentTo = null;
  }

  #settle(socket: WebSocket, frame: Extract<BridgeFrame, { type: 'published' | 'not-published' }>): void {
    const pending = this.#pending.get(frame.id);
    if (pending === undefined || pending.sentTo !== read(socket).instanceId) return;
    if (frame.type === 'published') {
      pending.settle({ ok: true, id: frame.id, publishedAtMs: Date.now(), hasSubscribers: frame.hasSubscribers });
    } else if (frame.reason === 'broker_disconnected' || frame.reason === 'standby') {
      // Not taken at all: whoever has a broker before it expires may have it. The bridge tells when it has one again.
      pending.sentTo = null;
      write(socket, { ...read(socket), isBrokerConnected: false, changedAtMs: Date.now() });
    } else {
      pending.settle({ ok: false, reason: frame.reason });
    }
  }

  #active(): Bridge | undefined {
    return this.#bridges().find(({ attachment }) => attachment.role === 'active');
  }

  #bridges(): Bridge[] {
    return this.ctx
      .getWebSockets()
      .filter((socket) => socket.readyState === WebSocket.OPEN)
      .map((socket) => ({ socket, attachment: read(socket) }));
  }

  /** Sets the alarm to when the next socket would be silent, nameless or brokerless for too long, where that matters. */
  async #watchSockets(): Promise<void> {
    const bridges = this.#bridges();
    const hasStandby = bridges.some(({ attachment }) => attachment.role === 'standby');
    const dueAtMs = bridges
      .filter(({ attachment }) => hasStandby || attachment.role === null)
      .map((bridge) =>
        bridge.attachment.role === null
          ? bridge.attachment.openedAtMs + helloWithinMs
          : Math.min(silentAtMs(this.ctx, bridge), brokerlessAtMs(bridge)),
      );
    if (dueAtMs.length > 0) await this.ctx.storage.setAlarm(Math.min(...dueAtMs));
  }
}

function silentAtMs(ctx: DurableObjectState, { socket, attachment }: Bridge): number {
  const pingedAtMs = ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0;
  return Math.max(pingedAtMs, attachment.openedAtMs) + silentAfterMs;
}

function brokerlessAtMs({ attachment }: Bridge): number {
  const isBrokerless = attachment.role === 'active' && !attachment.isBrokerConnected;
  return isBrokerless ? attachment.changedAtMs + brokerlessForMs : Infinity;
}

function readFrame(data: string | ArrayBuffer): BridgeFrame | undefined {
  if (typeof data !== 'string') return undefined;
  try {
    return bridgeFrameSchema.safeParse(JSON.parse(data)).data;
  } catch {
    return undefined;
  }
}

function read(socket: WebSocket): Attachment {
  return attachmentSchema.parse(socket.deserializeAttachment());
}

function write(socket: WebSocket, attachment: Attachment): void {
  socket.serializeAttachment(attachment);
}

function send(socket: WebSocket, frame: WorkerFrame): void {
  try {
    socket.send(JSON.stringify(frame));
  } catch {
    // Closed a moment ago: its close handler releases it.
  }
}

function closeQuietly(socket: WebSocket, code: number, reason: string): void {
  try {
    socket.close(code, reason);
  } catch {
    // Closed already.
  }
}
