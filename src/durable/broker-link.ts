// Where bridges dial in: hands publishes to the active one and promotes a standby when it goes. Keeps nothing but
// what its sockets carry; a publish lives in memory while its caller waits, and is never sent after its expiry.
import { DurableObject } from 'cloudflare:workers';
import { z } from 'zod';
import { bridgeFrameSchema, linkPing, linkPong, type BridgeFrame, type WorkerFrame } from '../protocol/bridge.ts';

export type PublishRequest = { topic: string; payload: string; expiresAtMs: number; messageExpirySeconds?: number };
export type PublishOutcome =
  { ok: true; id: string; publishedAtMs: number; hasSubscribers: boolean | null } | { ok: false; reason: string };

const attachmentSchema = z.object({
  bridgeId: z.string().nullable(),
  role: z.enum(['active', 'standby']).nullable(),
  isBrokerConnected: z.boolean(),
  openedAtMs: z.number(),
});
type Attachment = z.infer<typeof attachmentSchema>;

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
const watchEveryMs = 4_000;
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
    const waitMs = request.expiresAtMs - Date.now() + answerGraceMs;
    if (waitMs <= answerGraceMs) return { ok: false, reason: 'expired' };
    const { promise, resolve } = Promise.withResolvers<PublishOutcome>();
    this.#pending.set(id, {
      frame: {
        type: 'publish',
        id,
        topic: request.topic,
        payload: request.payload,
        expiresAtMs: request.expiresAtMs,
        messageExpirySeconds: request.messageExpirySeconds ?? Math.ceil(waitMs / 1000),
      },
      sentTo: null,
      settle: resolve,
    });
    this.#sendPending();
    // The caller's request keeps the object awake: this timer holds up no hibernation of its own.
    const timer = setTimeout(() => resolve({ ok: false, reason: 'timeout' }), waitMs);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#pending.delete(id);
    }
  }

  health(): { bridgeConnected: boolean; brokerConnected: boolean } {
    const active = this.#active();
    if (active === undefined || this.#isSilent(active.socket, active.attachment)) {
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

  override async webSocketClose(socket: WebSocket, code: number): Promise<void> {
    // Without an answer the bridge waits ten seconds and takes the close for a failure.
    closeQuietly(socket, code === 1005 || code === 1006 ? 1000 : code, '');
    await this.#release(socket);
  }

  override async webSocketError(socket: WebSocket): Promise<void> {
    await this.#release(socket);
  }

  /** Runs while there is somebody to promote or to turn away; otherwise the object sleeps. */
  override async alarm(): Promise<void> {
    for (const { socket, attachment } of this.#bridges()) {
      const isNameless = attachment.role === null && Date.now() - attachment.openedAtMs > helloWithinMs;
      if (isNameless) closeQuietly(socket, 1008, 'no hello');
    }
    await this.#releaseSilent();
    await this.#watchSockets();
  }

  async #welcome(socket: WebSocket, hello: Extract<BridgeFrame, { type: 'hello' }>): Promise<void> {
    const former = this.#bridges().filter((one) => one.socket !== socket && one.attachment.bridgeId === hello.bridgeId);
    const wasActive = former.some(({ attachment }) => attachment.role === 'active');
    for (const one of former) {
      write(one.socket, { ...one.attachment, role: null, bridgeId: null });
      closeQuietly(one.socket, 1008, 'replaced by a newer connection of the same bridge');
    }
    await this.#releaseSilent();
    const role = wasActive || this.#active() === undefined ? 'active' : 'standby';
    write(socket, { ...read(socket), bridgeId: hello.bridgeId, role, isBrokerConnected: hello.brokerConnected });
    send(socket, { type: 'welcome', nowMs: Date.now(), role });
    // A bridge that comes back answers from memory what it has published already.
    this.#resend(hello.bridgeId);
    await this.#watchSockets();
  }

  /** Gives up a socket; the longest-waiting standby becomes active if it was the active one. */
  async #release(socket: WebSocket): Promise<void> {
    const { role } = read(socket);
    write(socket, { ...read(socket), role: null, isBrokerConnected: false });
    if (role !== 'active') return;
    const [next] = this.#bridges()
      .filter(({ socket: other, attachment }) => other !== socket && attachment.role === 'standby')
      .sort((one, other) => one.attachment.openedAtMs - other.attachment.openedAtMs);
    if (next === undefined) return;
    write(next.socket, { ...next.attachment, role: 'active' });
    send(next.socket, { type: 'role', nowMs: Date.now(), role: 'active' });
    // Whether the bridge that went had published these nobody can say: not delivered is what callers are told.
    for (const pending of this.#pending.values()) {
      if (pending.sentTo !== null) pending.settle({ ok: false, reason: 'bridge_lost' });
    }
    await this.#watchSockets();
  }

  async #releaseSilent(): Promise<void> {
    for (const { socket, attachment } of this.#bridges()) {
      if (attachment.role === null || !this.#isSilent(socket, attachment)) continue;
      await this.#release(socket);
      closeQuietly(socket, 1008, 'silent');
    }
  }

  #isSilent(socket: WebSocket, attachment: Attachment): boolean {
    const heardAtMs = this.ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? 0;
    return Date.now() - Math.max(heardAtMs, attachment.openedAtMs) > silentAfterMs;
  }

  #sendPending(): void {
    const active = this.#active();
    if (active?.attachment.isBrokerConnected !== true) return;
    for (const pending of this.#pending.values()) {
      if (pending.sentTo !== null) continue;
      pending.sentTo = active.attachment.bridgeId;
      send(active.socket, pending.frame);
    }
  }

  #resend(bridgeId: string): void {
    for (const pending of this.#pending.values()) if (pending.sentTo === bridgeId) pending.sentTo = null;
  }

  #settle(socket: WebSocket, frame: Extract<BridgeFrame, { type: 'published' | 'not-published' }>): void {
    const pending = this.#pending.get(frame.id);
    if (pending === undefined || pending.sentTo !== read(socket).bridgeId) return;
    if (frame.type === 'published') {
      pending.settle({ ok: true, id: frame.id, publishedAtMs: Date.now(), hasSubscribers: frame.hasSubscribers });
    } else if (frame.reason === 'broker_disconnected' || frame.reason === 'standby') {
      // Not taken at all: whoever has a broker before it expires may have it.
      pending.sentTo = null;
      write(socket, { ...read(socket), isBrokerConnected: false });
    } else {
      pending.settle({ ok: false, reason: frame.reason });
    }
  }

  #active() {
    return this.#bridges().find(({ attachment }) => attachment.role === 'active');
  }

  #bridges(): { socket: WebSocket; attachment: Attachment }[] {
    return this.ctx.getWebSockets().map((socket) => ({ socket, attachment: read(socket) }));
  }

  async #watchSockets(): Promise<void> {
    const bridges = this.#bridges();
    const needsWatch = bridges.some(({ attachment }) => attachment.role === 'standby' || attachment.bridgeId === null);
    if (needsWatch && (await this.ctx.storage.getAlarm()) === null) {
      await this.ctx.storage.setAlarm(Date.now() + watchEveryMs);
    }
  }
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
