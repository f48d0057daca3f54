// Brings spooled messages to the Worker and retries until each one is answered for: batches, several under way.
// It must not drop a message, nor send two batches with one device's messages at the same time.
import * as protocol from '../../../src/protocol/bridge.ts';
import { createBackOff } from '../../../node-service/back-off.ts';
import type { DeadLetters } from './dead-letters.ts';
import { runDetached } from '../../../node-service/detached.ts';
import { DeviceQueue, type QueueName } from './device-queue.ts';
import { deviceOf, type FloodGate } from '../intake/flood-gate.ts';
import { describeError, type Log } from '../../../node-service/log.ts';
import type { Metrics } from '../metrics.ts';
import type { SpoolItem } from '../spool/database.ts';
import type { Spool } from '../spool/spool.ts';
import type { UplinkClient, UplinkOutcome } from './client.ts';
import { prepare, type UplinkMessage } from './message.ts';
import { watchProgress } from './progress.ts';

type Parts = {
  spool: Spool;
  client: UplinkClient;
  deadLetters: DeadLetters;
  log: Log;
  metrics: Metrics;
  floodGate: FloodGate;
  /** After so many failures of its own a message goes to the dead letters. */
  maxTries: number;
  stalledAfterMs: number;
  onStall: (stall: protocol.UplinkStall | null) => void;
};
/** The messages of a batch that are still to be delivered, and whether their device backs off first. */
type Unsent = Map<UplinkMessage, boolean>;
type Cause = { cause: string; requestId: string | undefined };

/** How long a message waits for others while batches are under way. */
const lingerMs = 4;
const unauthorizedRetryMs = 30_000;
/** The Worker may fail so often in a row, with a batch and its parts, before all sending pauses. */
const maxFailuresInARow = 20;
/** Batches under way at once: enough to keep a Worker 60 ms away busy, and few enough that messages gather meanwhile. */
const windows: Record<QueueName, number> = { usual: 4, held: 1 };
/** 256 bytes are left for what surrounds the items. */
const batchLimits = {
  maxItems: protocol.maxBatchItems,
  maxDevices: protocol.maxBatchDevices,
  maxBytes: protocol.maxBatchBytes - 256,
};

export class Uplink {
  readonly #parts: Parts;
  readonly #queue = new DeviceQueue<UplinkMessage>({
    onReady: () => this.#send(),
    onPark: (messages) => this.#parts.spool.release(messages.map(({ item }) => item)),
    onFetch: (device, seqs) => {
      const fetched = this.#parts.spool.fetch(seqs);
      runDetached(fetched.then((items) => this.#queue.addFetched(device, items.map(prepare))));
    },
  });
  readonly #backOff = createBackOff({ baseMs: 200, capMs: 10_000 });
  readonly #underWay: Record<QueueName, number> = { usual: 0, held: 0 };
  readonly progress: ReturnType<typeof watchProgress>;
  isUnauthorized = false;
  #failuresInARow = 0;
  #takenMessages = 0;
  #pausedUntilMs = 0;
  /** The pause is this bridge's own back-off, not one that the Worker asked for. */
  #isBackingOff = false;
  #pauseTimer: NodeJS.Timeout | undefined;
  #lingerTimer: NodeJS.Timeout | undefined;
  #hasLingered = false;
  #isStopped = false;
  #onIdle: (() => void) | null = null;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.progress = watchProgress({ ...parts, oldestReceivedAtMs: () => this.#queue.oldestReceivedAtMs() });
  }

  start(): void {
    this.#parts.spool.start((items) => {
      const released: SpoolItem[] = [];
      for (const item of items) {
        const device = deviceOf(item.topic);
        if (this.#queue.mustWait(device)) {
          this.#queue.addLater(device, item.seq);
          released.push(item);
        } else this.#queue.add(prepare(item));
      }
      this.#send();
      return released;
    });
  }

  /** The link to the Worker is back: ends a back-off, but no pause that the Worker asked for. */
  resume(): void {
    if (!this.#isBackingOff) return;
    this.#pausedUntilMs = 0;
    this.#send();
  }

  /** Sends for at most `maxMs` and only while the Worker takes messages; afterwards it sends nothing more. */
  async drain(maxMs: number): Promise<void> {
    const timer = setTimeout(() => this.#stop(), maxMs);
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve;
      this.#checkIdle();
    });
    clearTimeout(timer);
    this.#stop();
  }

  #stop(): void {
    this.#isStopped = true;
    this.progress.stop();
    clearTimeout(this.#pauseTimer);
    clearTimeout(this.#lingerTimer);
    this.#parts.client.close();
    this.#checkIdle();
  }

  get #isPaused(): boolean {
    return Date.now() < this.#pausedUntilMs;
  }

  get #isFailing(): boolean {
    return this.#backOff.failures > 0 || this.isUnauthorized;
  }

  #checkIdle(): void {
    if (this.#onIdle === null || this.#underWay.usual + this.#underWay.held > 0) return;
    const isDrained = this.#queue.size === 0 && this.#parts.spool.depth === 0;
    if (isDrained || this.#isStopped || this.#isFailing) this.#onIdle();
  }

  #send(): void {
    for (;;) {
      const name = this.#nextQueue();
      if (name === undefined) return;
      const pauseMs = this.#pausedUntilMs - Date.now();
      if (pauseMs > 0) {
        clearTimeout(this.#pauseTimer);
        this.#pauseTimer = setTimeout(() => this.#send(), pauseMs);
        return;
      }
      const mayGather = name === 'usual' && this.#underWay.usual > 0 && !this.#queue.fills(batchLimits);
      if (mayGather && !this.#hasLingered) {
        this.#lingerTimer ??= setTimeout(() => {
          this.#lingerTimer = undefined;
          this.#hasLingered = true;
          this.#send();
        }, lingerMs);
        return;
      }
      this.#hasLingered = false;
      clearTimeout(this.#lingerTimer);
      this.#lingerTimer = undefined;
      const room = windows[name] - this.#underWay[name];
      runDetached(this.#sendBatch(name, this.#queue.takeBatch(name, batchLimits, room)));
    }
  }

  /** The queue from which a batch can be sent now. Devices that were not served lately must not hold up the others. */
  #nextQueue(): QueueName | undefined {
    if (this.#isStopped) return undefined;
    // While the Worker fails, one batch at a time finds out whether it is back.
    if (this.#isFailing && this.#underWay.usual + this.#underWay.held > 0) return undefined;
    const isOpen = (name: QueueName): boolean => this.#queue.isReady(name) && this.#underWay[name] < windows[name];
    return (['held', 'usual'] as const).find(isOpen);
  }

  async #sendBatch(name: QueueName, batch: UplinkMessage[]): Promise<void> {
    this.#underWay[name] += 1;
    const unsent = await this.#post(batch);
    this.#underWay[name] -= 1;
    this.#parts.metrics.retries.inc(unsent.size);
    this.#queue.finish(batch, unsent);
    this.#checkIdle();
    this.#send();
  }

  async #post(batch: UplinkMessage[]): Promise<Unsent> {
    if (batch.length === 0) return new Map();
    const items = batch.map((queued) => queued.json).join(',');
    const dropped = this.#parts.floodGate.takeDropped(Date.now());
    const counts = dropped.length === 0 ? '' : `"dropped":${JSON.stringify(dropped)},`;
    const body = `{"spoolId":"${this.#parts.spool.spoolId}","sentAtMs":${Date.now()},${counts}"items":[${items}]}`;
    const outcome = await this.#parts.client.post(body);
    this.#parts.metrics.lastWorkerStatus.set(outcome.status);
    this.#parts.metrics.batches.inc({ outcome: outcome.kind });
    switch (outcome.kind) {
      case 'unauthorized':
        this.#pauseUnauthorized(outcome);
        return mapAll(batch, false);
      case 'unavailable':
        this.#pause(outcome);
        return mapAll(batch, false);
      case 'failed':
        return this.#postFailed(batch, outcome);
      case 'too-large':
      case 'invalid':
        this.#noteWorkerAnswers();
        if (batch.length > 1) return this.#postHalves(batch, outcome.reason, outcome.requestId);
        return this.#putAside(mapAll(batch, outcome.reason), outcome.requestId);
      case 'answered':
        this.#noteWorkerAnswers();
        this.#parts.metrics.reportSeconds.observe(ageOfOldestMs(batch) / 1000);
        return this.#applyResults(batch, outcome.results, outcome.requestId);
    }
  }

  /** The Worker itself failed: with some message of the batch, or with everything. */
  async #postFailed(batch: UplinkMessage[], { cause, requestId }: Cause): Promise<Unsent> {
    this.#failuresInARow += 1;
    if (this.#failuresInARow > maxFailuresInARow) {
      this.#pause({ cause, requestId, retryAfterMs: 0 });
      this.#failuresInARow = 0;
    } else if (batch.length > 1) return this.#postHalves(batch, cause, requestId);
    else if (batch.every((queued) => this.#isHopeless(queued))) return this.#putAside(mapAll(batch, cause), requestId);
    return mapAll(batch, batch.length === 1);
  }

  /** Halves the batch until the one message is found that the Worker does not take. */
  async #postHalves(batch: UplinkMessage[], reason: string, requestId: string | undefined): Promise<Unsent> {
    const messages = batch.length;
    this.#parts.log.info('the Worker refuses a batch: it goes up in halves', { reason, requestId, messages });
    const middle = Math.ceil(batch.length / 2);
    const first = await this.#post(batch.slice(0, middle));
    // A device whose earlier message was not taken waits, or its later one would overtake.
    const heldDevices = new Set([...first.keys()].map(({ device }) => device));
    const { held = [], free = [] } = Object.groupBy(batch.slice(middle), ({ device }) =>
      this.#isPaused || heldDevices.has(device) ? 'held' : 'free',
    );
    return new Map([...mapAll(held, false), ...first, ...(await this.#post(free))]);
  }

  async #applyResults(
    batch: UplinkMessage[],
    results: protocol.UplinkResult[],
    requestId: string | undefined,
  ): Promise<Unsent> {
    const resultBySeq = new Map(results.map((result) => [result.seq, result]));
    const unsent: Unsent = new Map();
    const rejected = new Map<UplinkMessage, string>();
    const failed: UplinkMessage[] = [];
    let retryReason: string | undefined;
    let dropped = 0;
    for (const queued of batch) {
      const { result, reason = 'no reason given' } = resultBySeq.get(queued.item.seq) ?? {
        result: 'retry',
        reason: 'not in the answer',
      };
      if (result === 'accepted') this.#finish(queued);
      else if (result === 'rejected' && reason === protocol.droppedReason) {
        this.#finish(queued);
        dropped += 1;
      } else if (result === 'rejected') rejected.set(queued, reason);
      else {
        retryReason ??= reason;
        unsent.set(queued, true);
        if (reason === protocol.messageFailed) failed.push(queued);
      }
    }
    const accepted = batch.length - rejected.size - dropped - unsent.size;
    this.#takenMessages += accepted;
    for (const queued of failed.filter((message) => this.#isHopeless(message))) {
      unsent.delete(queued);
      rejected.set(queued, protocol.messageFailed);
    }
    const counts = { accepted, rejected: rejected.size, dropped, retry: unsent.size };
    for (const [result, count] of Object.entries(counts)) {
      if (count > 0) this.#parts.metrics.items.inc({ result }, count);
    }
    if (unsent.size > 0) {
      if (accepted === 0) this.progress.trouble = 'devices_not_served';
      const fields = { messages: unsent.size, firstReason: retryReason, requestId };
      this.#parts.log.info('the Worker does not take some messages now: they go up again', fields);
    }
    return new Map([...unsent, ...(await this.#putAside(rejected, requestId))]);
  }

  /**
   * A message failed by itself, again and again, and each time others were taken in between. While nothing else is taken,
   * the Worker or the object is in trouble, and no try counts.
   */
  #isHopeless({ failures }: UplinkMessage): boolean {
    if (this.#takenMessages > failures.takenBefore) {
      failures.tries += 1;
      failures.takenBefore = this.#takenMessages;
    }
    return failures.tries >= this.#parts.maxTries;
  }

  /** Writes to the dead letters. Answers what could not be written there, and so must stay in the spool. */
  async #putAside(rejected: Map<UplinkMessage, string>, requestId?: string): Promise<Unsent> {
    const [first] = rejected;
    if (first === undefined) return new Map();
    const deadLetteredAt = new Date().toISOString();
    const { spoolId } = this.#parts.spool;
    const [{ item }, firstReason] = first;
    const about = { messages: rejected.size, firstTopic: item.topic, firstReason, requestId };
    try {
      await this.#parts.deadLetters.add(
        Array.from(rejected, ([{ letter }, reason]) => {
          return { deadLetteredAt, reason, requestId, spoolId, item: JSON.parse(letter) as unknown };
        }),
      );
    } catch (error) {
      this.progress.trouble = 'dead_letters_unwritable';
      this.#parts.log.error('dead letters cannot be written', { alarm: true, ...about, cause: describeError(error) });
      return mapAll([...rejected.keys()], true);
    }
    for (const queued of rejected.keys()) this.#finish(queued);
    this.#parts.metrics.deadLetters.inc(rejected.size);
    this.#parts.log.warn('some messages will never be taken: they are in the dead letters', about);
    return new Map();
  }

  #finish({ item }: UplinkMessage): void {
    this.#parts.spool.markDone(item);
    this.progress.noteDone();
  }

  #noteWorkerAnswers(): void {
    if (this.#isFailing) this.#parts.log.info('the Worker takes messages again');
    this.#backOff.failures = 0;
    this.isUnauthorized = false;
    this.#isBackingOff = false;
    this.#pausedUntilMs = 0;
    this.#failuresInARow = 0;
  }

  #pause({ cause, requestId, retryAfterMs }: Cause & { retryAfterMs: number }): void {
    if (this.#isStopped) return;
    this.progress.trouble = 'worker_unavailable';
    // Batches under way fail together: that is one failure.
    const isFirst = !this.#isPaused;
    const delayMs = Math.max(retryAfterMs, isFirst ? this.#backOff.nextDelayMs() : 0);
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, Date.now() + delayMs);
    this.#isBackingOff = retryAfterMs === 0;
    const fields = { cause, requestId, retryInMs: Math.round(delayMs) };
    this.#parts.log[isFirst ? 'warn' : 'debug']('the Worker takes no messages', fields);
  }

  #pauseUnauthorized({ status, requestId }: UplinkOutcome): void {
    this.isUnauthorized = true;
    this.#isBackingOff = false;
    this.progress.trouble = 'secret_refused';
    this.#pausedUntilMs = Date.now() + unauthorizedRetryMs;
    this.#parts.log.error('the Worker refuses the bridge secret: messages stay in the spool', {
      alarm: true,
      status,
      requestId,
      retryInMs: unauthorizedRetryMs,
      remedy: 'give this bridge and the Worker the same BRIDGE_SECRET',
    });
  }
}

function mapAll<T>(messages: UplinkMessage[], value: T): Map<UplinkMessage, T> {
  return new Map(messages.map((message) => [message, value]));
}

function ageOfOldestMs(messages: UplinkMessage[]): number {
  return Math.max(0, Date.now() - Math.min(...messages.map(({ receivedAtMs }) => receivedAtMs)));
}
