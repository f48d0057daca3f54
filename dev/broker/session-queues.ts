// Takes the deliveries to persistent sessions out of aedes' hands, which sends what it queued beside what is new, without
// DUP and with packet identifiers that may be in use. Holds publishers up while a connected session is far behind.
import { Readable } from 'node:stream';
import type { Aedes, AedesPublishPacket, Client } from 'aedes';
import type { Log } from '../../rig/worker/part-process.ts';
import { type QueuedMessage, type QueueLimits, SessionQueue } from './session-queue.ts';

/** Publishers wait while a session that acknowledges is behind by more than this part of what it may be. */
const crowdedPart = 1 / 50;
/** A session that acknowledges nothing for so long holds nobody up: its queue fills to its limit. */
const stalledAfterMs = 2_000;

type Subscriber = { clientId: string; qos: number };
type Numbered = { cmd: string; messageId: number };

/** The part of aedes' persistence that keeps outgoing messages; it is called with promises alone. */
type OutgoingStore = {
  outgoingEnqueue: (subscriber: Subscriber, packet: AedesPublishPacket) => Promise<void>;
  outgoingEnqueueCombi: (subscribers: Subscriber[], packet: AedesPublishPacket) => Promise<void>;
  outgoingUpdate: (client: Client, packet: Numbered) => Promise<void>;
  outgoingClearMessageId: (client: Client, packet: Numbered) => Promise<void>;
  outgoingStream: () => Readable;
  cleanSubscriptions: (client: Client) => Promise<void>;
};

type Held = { clientId: string | undefined; proceed: () => void };
type Deliver = (packet: AedesPublishPacket, done: () => void) => void;
type Options = { limits: QueueLimits; mayReceive: (client: Client, topic: string) => boolean; log: Log };

export class SessionQueues {
  readonly #options: Options;
  readonly #queues = new Map<string, SessionQueue>();
  /** Sessions that have lost messages since they were empty: how many. */
  readonly #dropped = new Map<string, number>();
  /** By client. */
  readonly #crowded = new Map<string, { queue: SessionQueue; progressAtMs: number }>();
  #held: Held[] = [];
  #admittedInTurn = 0;
  #looking: NodeJS.Timeout | undefined;

  constructor(options: Options) {
    this.#options = options;
  }

  /** Before the first client. */
  takeOver(aedes: Aedes): void {
    const { persistence } = aedes as unknown as { persistence: OutgoingStore };
    const cleanSubscriptions = persistence.cleanSubscriptions.bind(persistence);
    const store: OutgoingStore = {
      outgoingEnqueue: ({ clientId, qos }, packet) => {
        this.#add(clientId, { ...packet, retain: false }, qos);
        return Promise.resolve();
      },
      outgoingEnqueueCombi: (subscribers, packet) => {
        for (const [clientId, qos] of bestQos(subscribers)) this.#add(clientId, { ...packet, retain: false }, qos);
        return Promise.resolve();
      },
      outgoingUpdate: ({ id }, { cmd, messageId }) => {
        if (cmd === 'pubrel') this.#queues.get(id)?.release(messageId);
        return Promise.resolve();
      },
      outgoingClearMessageId: ({ id }, { messageId }) => {
        this.#acknowledge(id, messageId);
        return Promise.resolve();
      },
      outgoingStream: () => Readable.from([]),
      // A clean session begins, and ends the one before.
      cleanSubscriptions: (client) => {
        this.#queues.delete(client.id);
        return cleanSubscriptions(client);
      },
    };
    Object.assign(persistence, store);
    aedes.on('clientReady', (client) => this.#attach(client));
  }

  /** For each new connection: a persistent session receives from its queue alone. */
  adopt(client: Client): void {
    const delivering = client as unknown as { deliverQoS: Deliver };
    const deliver = delivering.deliverQoS;
    delivering.deliverQoS = (packet, done) => {
      if (client.clean || packet.qos === 0) {
        deliver(packet, done);
        return;
      }
      // A retained message for a new subscription; all others were queued when they were published.
      if (packet.retain) this.#add(client.id, packet, packet.qos);
      setImmediate(done);
    };
  }

  /**
   * Calls back in the order of the calls, when there is room. A client that is behind itself does not wait: its
   * acknowledgements come after what it publishes.
   */
  whenRoom(publisher: Client | null, proceed: () => void): void {
    const isBehind = publisher !== null && this.#crowded.has(publisher.id);
    if (isBehind || (this.#held.length === 0 && this.#mayAdmit())) {
      this.#admit(proceed);
      return;
    }
    this.#held.push({ clientId: publisher?.id, proceed });
    this.#looking ??= setInterval(() => this.#look(), stalledAfterMs / 4);
  }

  /** What is admitted is queued a turn of the event loop later; one turn may bring thousands. */
  #mayAdmit(): boolean {
    if (this.#admittedInTurn >= this.#crowdedAt) return false;
    for (const { progressAtMs } of this.#crowded.values()) {
      if (performance.now() - progressAtMs < stalledAfterMs) return false;
    }
    return true;
  }

  #admit(proceed: () => void): void {
    if (this.#admittedInTurn === 0) {
      setImmediate(() => {
        this.#admittedInTurn = 0;
        this.#look();
      });
    }
    this.#admittedInTurn += 1;
    proceed();
  }

  #queueOf(clientId: string): SessionQueue {
    const { limits, mayReceive } = this.#options;
    const queue = this.#queues.get(clientId) ?? new SessionQueue(limits, mayReceive);
    this.#queues.set(clientId, queue);
    return queue;
  }

  #add(clientId: string, { topic, payload, retain, ...packet }: AedesPublishPacket, subscribedQos: number): void {
    const queue = this.#queueOf(clientId);
    const message: QueuedMessage = { topic, payload, qos: Math.min(packet.qos, subscribedQos) === 2 ? 2 : 1, retain };
    if (!queue.add(message)) {
      const dropped = this.#dropped.get(clientId) ?? 0;
      if (dropped === 0) this.#options.log('warn', 'session_queue_full', { clientId, messages: queue.waiting });
      this.#dropped.set(clientId, dropped + 1);
    }
    if (queue.isAttached && queue.waiting > this.#crowdedAt && !this.#crowded.has(clientId)) {
      this.#crowded.set(clientId, { queue, progressAtMs: performance.now() });
      // From now on it does not wait, and what it publishes must not overtake what it has published.
      const own = this.#held.filter((held) => held.clientId === clientId);
      this.#held = this.#held.filter((held) => held.clientId !== clientId);
      for (const { proceed } of own) this.#admit(proceed);
    }
  }

  #attach(client: Client): void {
    if (client.clean || client.conn.destroyed) return;
    const queue = this.#queueOf(client.id);
    queue.attach(client);
    client.conn.once('close', () => {
      queue.detach(client);
      this.#look();
    });
  }

  #acknowledge(clientId: string, messageId: number): void {
    const queue = this.#queues.get(clientId);
    if (queue === undefined) return;
    queue.acknowledge(messageId);
    const crowd = this.#crowded.get(clientId);
    if (crowd !== undefined) {
      crowd.progressAtMs = performance.now();
      this.#look();
    }
    const dropped = queue.waiting === 0 ? this.#dropped.get(clientId) : undefined;
    if (dropped === undefined) return;
    this.#dropped.delete(clientId);
    this.#options.log('error', 'session_queue_dropped', { clientId, messages: dropped });
  }

  get #crowdedAt(): number {
    return this.#options.limits.messages * crowdedPart;
  }

  #look(): void {
    for (const [clientId, { queue }] of this.#crowded) {
      if (!queue.isAttached || queue.waiting < this.#crowdedAt / 2) this.#crowded.delete(clientId);
    }
    while (this.#mayAdmit()) {
      const next = this.#held.shift();
      if (next === undefined) break;
      this.#admit(next.proceed);
    }
    if (this.#held.length > 0) return;
    clearInterval(this.#looking);
    this.#looking = undefined;
  }
}

/** A client whose filters overlap gets a message once. */
function bestQos(subscribers: Subscriber[]): Map<string, number> {
  const best = new Map<string, number>();
  for (const { clientId, qos } of subscribers) best.set(clientId, Math.max(qos, best.get(clientId) ?? 0));
  return best;
}
