// The Worker's side of the bridge protocol, as a real HTTP and WebSocket server with switches for faults. It takes the
// Worker's place if a test needs one that fails on command. It also checks the promises of the bridge.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { WebSocketServer, type WebSocket } from 'ws';
import {
  bridgeFrameSchema,
  linkPath,
  linkPing,
  linkPong,
  maxBatchBytes,
  uplinkBatchSchema,
  uplinkItemSchema,
  uplinkPath,
  type BridgeFrame,
  type PublishFrame,
  type UplinkItem,
  type UplinkResult,
  type WorkerFrame,
} from '../../src/protocol/bridge.ts';
import { bridgeSecret } from '../services/processes.ts';
import { Changes } from '../changes.ts';
import { LoopbackServer } from '../loopback-server.ts';
import { runDetached } from '../../node-service/detached.ts';

type Role = 'active' | 'standby';
type Bridge = {
  socket: WebSocket;
  instanceId: string | undefined;
  role: Role;
  isBrokerConnected: boolean;
  pings: number;
};
export type Batch = {
  spoolId: string;
  dropped: { topic: string; count: number }[];
  items: UplinkItem[];
  bytes: number;
};

export type Faults = {
  /** Answers with this status instead of applying the batch. */
  status: number | null;
  retryAfter: string | null;
  /** Takes the request and never answers. */
  isHanging: boolean;
  delayMs: number;
  /** Applies the batch and cuts the connection instead of answering. */
  dropsAnswers: boolean;
  /** Answers 200 with a body that is no answer of the protocol. */
  answersNonsense: boolean;
  maxItems: number;
  /** What a whole batch with such a message in it is answered. */
  statusWith: (item: UplinkItem) => 400 | 500 | undefined;
  judge: (item: UplinkItem) => Omit<UplinkResult, 'seq'>;
};

const noFaults: Faults = {
  status: null,
  retryAfter: null,
  isHanging: false,
  delayMs: 0,
  dropsAnswers: false,
  answersNonsense: false,
  maxItems: Infinity,
  statusWith: () => undefined,
  judge: () => ({ result: 'accepted' }),
};

export class WorkerSide extends LoopbackServer {
  readonly changes = new Changes();
  faults: Faults = { ...noFaults };
  readonly batches: Batch[] = [];
  requests = 0;
  /** How many messages the bridge dropped, by topic, as it said. */
  readonly dropped = new Map<string, number>();
  /**
   * Payloads in the order of their effect. As in the Worker, a number of a spool has effect once.
   * A message that may be a redelivery has none if the same content was there before.
   */
  readonly effects: string[] = [];
  readonly frames: BridgeFrame[] = [];
  readonly bridges = new Map<string, Bridge>();
  mostUnderWay = 0;
  violations: string[] = [];
  assignRole: (bridgeId: string) => Role = () => 'active';
  /** The links of this bridge are cut after its hello. */
  isLinkRefusedFor: string | null = null;
  /** Closes every link after its hello, with this reason. */
  closesLinksWith: string | null = null;
  readonly #links = new WebSocketServer({ noServer: true });
  readonly #seen = new Set<string>();
  #lastActive: string | undefined;
  readonly #underWayByDevice = new Map<string, number>();
  #underWay = 0;

  private constructor() {
    const server = createServer((request, response) => runDetached(this.#takeRequest(request, response)));
    super(server);
    server.on('upgrade', (request, socket, head) => {
      const url = new URL(request.url ?? '', 'http://worker.test');
      if (url.pathname !== linkPath || request.headers.authorization !== `Bearer ${bridgeSecret}`) {
        socket.end('HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n');
        return;
      }
      this.#links.handleUpgrade(request, socket, head, (link) => this.#serveLink(link));
    });
  }

  static start(): Promise<WorkerSide> {
    return new WorkerSide().listen();
  }

  setFaults(faults: Partial<Faults>): void {
    this.faults = { ...noFaults, ...faults };
  }

  override async stop(): Promise<void> {
    this.cutLinks();
    await super.stop();
  }

  closeLink(bridgeId: string, reason: string): void {
    this.bridges.get(bridgeId)?.socket.close(1008, reason);
  }

  cutLinks(): void {
    for (const link of this.#links.clients) link.terminate();
  }

  /** Waits until the bridge has said that it is connected to the broker, and is active. */
  async untilActive(bridgeId = 'bridge-1'): Promise<void> {
    await this.changes.until(`${bridgeId} active and connected`, () => {
      const bridge = this.bridges.get(bridgeId);
      return bridge?.role === 'active' && bridge.isBrokerConnected;
    });
  }

  /** Resolves when all of these payloads have had their effect. */
  async untilEffects(...payloads: string[]): Promise<void> {
    const missing = (): string[] => {
      const effects = new Set(this.effects);
      return payloads.filter((payload) => !effects.has(payload));
    };
    await this.changes.until(
      () => `all in effect, ${missing().length} are missing`,
      () => missing().length === 0,
    );
  }

  setRole(bridgeId: string, role: Role): void {
    const bridge = this.bridges.get(bridgeId);
    if (bridge === undefined) throw new Error(`${bridgeId} is not there`);
    bridge.role = role;
    const resumes = role === 'active' && this.#noteActive(bridge.instanceId);
    this.send(bridgeId, { type: 'role', nowMs: Date.now(), role, resumes });
  }

  /** A bridge that no test needs to start. */
  letAnotherBeActive(): void {
    this.#noteActive('another');
  }

  #noteActive(instanceId: string | undefined): boolean {
    const resumes = instanceId === this.#lastActive;
    this.#lastActive = instanceId;
    return resumes;
  }

  send(bridgeId: string, frame: WorkerFrame): void {
    this.bridges.get(bridgeId)?.socket.send(JSON.stringify(frame));
  }

  publish(command: Partial<PublishFrame> & { id: string; topic: string }, bridgeId = 'bridge-1'): void {
    const defaults = { payload: '{}', expiresAtMs: Date.now() + 30_000, messageExpirySeconds: 30 };
    this.send(bridgeId, { type: 'publish', ...defaults, ...command });
  }

  /** The answer to a command; fails after a while without one. */
  async answerTo(id: string): Promise<BridgeFrame> {
    const find = (): BridgeFrame | undefined => this.frames.find((frame) => 'id' in frame && frame.id === id);
    await this.changes.until(`an answer to ${id}`, () => find() !== undefined);
    return find()!;
  }

  #serveLink(link: WebSocket): void {
    let bridgeId: string | null = null;
    (link as unknown as { _socket: { setNoDelay: (on: boolean) => void } })._socket.setNoDelay(true);
    link.on('message', (data) => {
      const text = (data as Buffer).toString();
      if (text === linkPing) {
        link.send(linkPong);
        const bridge = this.bridges.get(bridgeId ?? '');
        if (bridge?.socket === link) bridge.pings += 1;
        this.changes.note();
        return;
      }
      const frame = bridgeFrameSchema.parse(JSON.parse(text));
      if (frame.type === 'hello') {
        if (frame.bridgeId === this.isLinkRefusedFor) {
          link.terminate();
          return;
        }
        if (this.closesLinksWith !== null) {
          link.close(1008, this.closesLinksWith);
          return;
        }
        bridgeId = frame.bridgeId;
        const role = this.assignRole(bridgeId);
        const { instanceId, brokerConnected: isBrokerConnected } = frame;
        this.bridges.set(bridgeId, { socket: link, instanceId, role, isBrokerConnected, pings: 0 });
        this.setRole(bridgeId, role);
      } else if (frame.type === 'broker' && bridgeId !== null) {
        const bridge = this.bridges.get(bridgeId);
        if (bridge?.socket === link) bridge.isBrokerConnected = frame.connected;
      }
      this.frames.push(frame);
      this.changes.note();
    });
    link.on('close', () => {
      if (bridgeId !== null && this.bridges.get(bridgeId)?.socket === link) this.bridges.delete(bridgeId);
      this.changes.note();
    });
  }

  async #takeRequest(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of request) chunks.push(chunk as Buffer);
    } catch (error) {
      // The bridge has closed the connection.
      response.destroy(error as Error);
      return;
    }
    this.requests += 1;
    this.changes.note();
    const body = Buffer.concat(chunks);
    const answer = (status: number, json: unknown): void => {
      const retryAfter = this.faults.retryAfter === null ? {} : { 'retry-after': this.faults.retryAfter };
      response.writeHead(status, { 'content-type': 'application/json', ...retryAfter }).end(JSON.stringify(json));
    };
    if (request.url !== uplinkPath || request.headers.authorization !== `Bearer ${bridgeSecret}`) {
      answer(401, { code: 401, message: 'unauthorized', data: null });
      return;
    }
    if (this.faults.isHanging) return;
    const parsed = uplinkBatchSchema.parse(JSON.parse(body.toString()));
    const items = parsed.items.map((item) => uplinkItemSchema.parse(item));
    const batch: Batch = { spoolId: parsed.spoolId, dropped: parsed.dropped ?? [], items, bytes: body.length };
    this.#enter(batch);
    if (this.faults.delayMs > 0) await new Promise((resolve) => setTimeout(resolve, this.faults.delayMs));
    this.#leave(batch);
    const tooMany = items.length > this.faults.maxItems ? 413 : undefined;
    const status =
      this.faults.status ?? tooMany ?? items.map(this.faults.statusWith).find((code) => code !== undefined);
    if (status !== undefined) {
      const message = status === 400 || status === 413 ? 'invalid_request' : 'a fault on request';
      answer(status, { code: status, message, data: null });
    } else {
      const results = this.#commit(batch);
      if (this.faults.dropsAnswers) request.socket.destroy();
      else if (this.faults.answersNonsense) answer(200, { hello: 'world' });
      else answer(200, { code: 200, message: 'success', data: { results } });
    }
  }

  #commit(batch: Batch): UplinkResult[] {
    this.batches.push(batch);
    for (const { topic, count } of batch.dropped) this.dropped.set(topic, (this.dropped.get(topic) ?? 0) + count);
    const results = batch.items.map((item) => {
      const isTooLarge = item.payload === undefined && item.payloadBase64 === undefined;
      const verdict = isTooLarge ? ({ result: 'rejected', reason: 'too_large' } as const) : this.faults.judge(item);
      const name = `${batch.spoolId}/${item.seq}`;
      if (verdict.result === 'accepted' && !this.#seen.has(name)) {
        this.#seen.add(name);
        const effect = item.payload ?? `base64:${item.payloadBase64 ?? ''}`;
        const content = `${item.topic} ${effect}`;
        const isNew = item.redeliveryOf === undefined && (item.soleReader === true || !this.#seen.has(content));
        if (item.dup !== true || isNew) this.effects.push(effect);
        this.#seen.add(content);
      }
      return { seq: item.seq, ...verdict };
    });
    this.changes.note();
    return results;
  }

  #enter(batch: Batch): void {
    this.#underWay += 1;
    this.mostUnderWay = Math.max(this.mostUnderWay, this.#underWay);
    if (batch.bytes > maxBatchBytes) this.violations.push(`a body of ${batch.bytes} bytes`);
    for (const device of devicesOf(batch)) {
      const count = (this.#underWayByDevice.get(device) ?? 0) + 1;
      this.#underWayByDevice.set(device, count);
      if (count > 1) this.violations.push(`two batches with messages of ${device} at the same time`);
    }
  }

  #leave(batch: Batch): void {
    this.#underWay -= 1;
    for (const device of devicesOf(batch)) {
      this.#underWayByDevice.set(device, (this.#underWayByDevice.get(device) ?? 1) - 1);
    }
  }
}

function devicesOf(batch: Batch): Set<string> {
  return new Set(batch.items.map(({ topic }) => topic.split('/').slice(0, 4).join('/')));
}
