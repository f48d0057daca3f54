// Where bridges dial in: hands publishes to the active one and promotes a standby when it goes. Keeps nothing but
// what its sockets carry; a publish lives in memory while its caller waits, and is never sent after its expiry.
import { DurableObject } from 'cloudflare:workers';
import { z } from 'zod';
import { bridgeFrameSchema, linkPing, linkPong, type BridgeFrame, type WorkerFrame } from '../protocol/bridge.ts';

type PublishRequest = { topic: string; payload: string; expiresAtMs: number; messageExpirySeconds?: number };
export type PublishOutcome =
  { ok: true; id: string; publishedAtMs: number; hasSubscribers: boolean | null } | { ok: false; reason: string };

const attachmentSchema = z.object({
  bridgeId: z.string().nullable(),
  role: z.enum(['active', 'standby']).nullable(),
  isBrokerConnected: z.boolean(),
  openedAtMs: z.number(),
});
type Attachment = z.infer<typeof attachmentSchema>;
type Bridge = { socket: WebSocket; attachment: Attachment };

type Pending = {
  frame: Extract<WorkerFrame, { type: 'publish' }>;
  /** The bridge that has it; null while none could take it. */
  sentTo: string | null;
  settle: (outcome: PublishOutcome) => void;
};

/** How much longer than its expiry a caller waits for the bridge's answer. */
const answerGraceMs = 500;
/** A bridge pings every 5 s; one that was silent for this long is gone although its socket looks open. */
const silentAfterMs = 9_000;
const helloWithinMs = 5_000;

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
    write(server, { bridgeId: null, role: null, isBrokerConnected: false, openedAtMs: Date.now() });
    await this.#watchSockets();
    return new Response(null, { status: 101, webSocket: client });
  }

  /** Resolves when the broker acknowledged, or says why not; never later than shortly after `expiresAtMs`. */
  async publish(request: PublishRequest): Promise<PublishOutcome> {
    const id = crypto.randomUUID();
    const lifeMs = request.expiresAtMs - Date.now();
    if (lifeMs <= 0) return { ok: false, reason: 'expired' };
    const { promise, resolve } = Promise.withResolvers<PublishOutcome>();
    const pending: Pending = {
      frame: {
        type: 'publish',
        id,
        topic: request.topic,
        payload: request.payload,
        expiresAtMs: request.expiresAtMs,
        messageExpirySeconds: request.messageExpirySeconds ?? Math.ceil(lifeMs / 1000),
      },
      sentTo: null,
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
        write(socket, { ...read(socket), isBrokerConnected: frame.connected });
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
    write(socket, { ...read(socket), bridgeId: hello.bridgeId, role, isBrokerConnected: hello.brokerConnected });
    send(socket, { type: 'welcome', nowMs: Date.now(), role });
    if (role === 'active') this.#giveUpAllBut(hello.bridgeId);
    // A process that was killed closes its socket. So this one lost its network alone and still knows what it has
    // published: it answers that from memory, and publishes what never reached it.
    if (wasActive) this.#unsend(hello.bridgeId);
    await this.#watchSockets();
  }

  /** Gives up a socket; the longest-waiting standby becomes active if it was the active one. */
  #release(socket: WebSocket): void {
    const attachment = read(socket);
    write(socket, { ...attachment, role: null });
    if (attachment.role !== 'active') return;
    const [next] = this.#bridges()
      .filter((one) => one.socket !== socket && one.attachment.role === 'standby')
      .filter((one) => Date.now() < silentAtMs(this.ctx, one))
      .sort((one, other) => one.attachment.openedAtMs - other.attachment.openedAtMs);
    if (next === undefined) return;
    write(next.socket, { ...next.attachment, role: 'active' });
    send(next.socket, { type: 'role', nowMs: Date.now(), role: 'active' });
    this.#giveUpAllBut(next.attachment.bridgeId);
    this.#sendPending();
  }

  /** Whether a bridge that went had published what it took nobody can say: callers are told that it was not. */
  #giveUpAllBut(bridgeId: string | null): void {
    for (const { sentTo, settle } of this.#pending.values()) {
      if (sentTo !== null && sentTo !== bridgeId) settle({ ok: false, reason: 'bridge_lost' });
    }
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
    pending.sentTo = active.attachment.bridgeId;
    send(active.socket, pending.frame);
  }

  #unsend(bridgeId: string): void {
    for (const pending of this.#pending.values()) if (pending.sentTo === bridgeId) pending.sentTo = null;
  }

  #settle(socket: WebSocket, frame: Extract<BridgeFrame, { type: 'published' | 'not-published' }>): void {
    const pending = this.#pending.get(frame.id);
    if (pending === undefined || pending.sentTo !== read(socket).bridgeId) return;
    if (frame.type === 'published') {
      pending.settle({ ok: true, id: frame.id, publishedAtMs: Date.now(), hasSubscribers: frame.hasSubscribers });
    } else if (frame.reason === 'broker_disconnected' || frame.reason === 'standby') {
      // Not taken at all: whoever has a broker before it expires may have it. The bridge tells when it has one again.
      pending.sentTo = null;
      write(socket, { ...read(socket), isBrokerConnected: false });
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

  /** Sets the alarm to when the next socket would be silent or nameless for too long, where that matters. */
  async #watchSockets(): Promise<void> {
    const bridges = this.#bridges();
    const hasStandby = bridges.some(({ attachment }) => attachment.role === 'standby');
    const dueAtMs = bridges
      .filter(({ attachment }) => hasStandby || attachment.role === null)
      .map((bridge) =>
        bridge.attachment.role === null ? bridge.attachment.openedAtMs + helloWithinMs : silentAtMs(this.ctx, bridge),
      );
    if (dueAtMs.length > 0) await this.ctx.storage.setAlarm(Math.min(...dueAtMs));
  }
}

function silentAtMs(ctx: DurableObjectState, { socket, attachment }: Bridge): number {
  const pingedAtMs = ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0;
  return Math.max(pingedAtMs, attachment.openedAtMs) + silentAfterMs;
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
