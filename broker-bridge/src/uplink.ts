// Brings spooled messages to the Worker and retries until each one is answered for: batches, several under way.
// It must not drop a message, nor send two batches with one device's messages at the same time.
import { isUtf8 } from 'node:buffer';
import {
  droppedReason,
  maxBatchBytes,
  maxBatchDevices,
  maxBatchItems,
  type UplinkResult,
} from '../../src/protocol/bridge.ts';
import { BackOff } from './back-off.ts';
import type { DeadLetters } from './dead-letters.ts';
import { runDetached } from './detached.ts';
import { DeviceQueue } from './device-queue.ts';
import { describeError, type Log } from './log.ts';
import type { Metrics } from './metrics.ts';
import type { SpoolItem } from './spool-database.ts';
import type { Spool } from './spool.ts';
import { tooLarge, type UplinkClient, type UplinkOutcome } from './uplink-client.ts';

type Parts = { spool: Spool; client: UplinkClient; deadLetters: DeadLetters; log: Log; metrics: Metrics };
type Queued = { item: SpoolItem; device: string; receivedAtMs: number; json: string; bytes: number };
/** What is still to be delivered of a batch, and whether all sending pauses because of it. */
type Unsent = { items: Set<Queued>; isPaused: boolean };

/** Enough full ones for a Worker 30 ms away; with more, a device's messages would gather less and its calls be more. */
const maxBatchesUnderWay = 3;
/** How long a message waits for others while batches are under way. */
const lingerMs = 4;
const unauthorizedRetryMs = 30_000;
/** Room in a body for what is around the items. */
const envelopeBytes = 256;
const batchLimits = {
  maxItems: maxBatchItems,
  maxDevices: maxBatchDevices,
  maxBytes: maxBatchBytes - envelopeBytes,
};

export class Uplink {
  readonly #parts: Parts;
  readonly #queue = new DeviceQueue<Queued>(() => this.#send());
  readonly #backOff = new BackOff({ baseMs: 200, capMs: 10_000 });
  #underWay = 0;
  #pausedUntilMs = 0;
  #pauseTimer: NodeJS.Timeout | undefined;
  #lingerTimer: NodeJS.Timeout | undefined;
  #hasLingered = false;
  #isUnauthorized = false;
  #isStopped = false;
  #onIdle: (() => void) | null = null;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** The Worker refused the bridge secret in its last answer. */
  get isUnauthorized(): boolean {
    return this.#isUnauthorized;
  }

  oldestReceivedAtMs(): number {
    return this.#queue.oldestReceivedAtMs();
  }

  start(): void {
    this.#parts.spool.start((items) => {
      for (const item of items) this.#queue.add(prepare(item));
      this.#send();
    });
  }

  /** Sends what it can within `maxMs`, as long as the Worker takes it, and then nothing more. */
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
    clearTimeout(this.#pauseTimer);
    clearTimeout(this.#lingerTimer);
    this.#parts.client.close();
    this.#checkIdle();
  }

  get #isFailing(): boolean {
    return this.#backOff.failures > 0 || this.#isUnauthorized;
  }

  #checkIdle(): void {
    if (this.#onIdle === null || this.#underWay > 0) return;
    const isDrained = this.#queue.size === 0 && this.#parts.spool.depth === 0;
    if (isDrained || this.#isStopped || this.#isFailing) this.#onIdle();
  }

  #send(): void {
    while (!this.#isStopped && this.#queue.readyItems > 0) {
      const pauseMs = this.#pausedUntilMs - Date.now();
      if (pauseMs > 0) {
        clearTimeout(this.#pauseTimer);
        this.#pauseTimer = setTimeout(() => this.#send(), pauseMs);
        return;
      }
      // While the Worker fails, one batch at a time finds out whether it is back.
      if (this.#underWay >= (this.#isFailing ? 1 : maxBatchesUnderWay)) return;
      if (this.#underWay > 0 && !this.#hasLingered && !this.#queue.fills(batchLimits)) {
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
      runDetached(this.#sendBatch(this.#queue.takeBatch(batchLimits)));
    }
  }

  async #sendBatch(batch: Queued[]): Promise<void> {
    this.#underWay += 1;
    const { items, isPaused } = await this.#deliver(batch);
    this.#underWay -= 1;
    this.#parts.metrics.retries.inc(items.size);
    this.#queue.finish(batch, items, isPaused);
    this.#checkIdle();
    this.#send();
  }

  async #deliver(batch: Queued[]): Promise<Unsent> {
    const [only] = batch;
    if (batch.length === 1 && only !== undefined && only.bytes + envelopeBytes > maxBatchBytes) {
      return { items: await this.#putAside([{ queued: only, reason: tooLarge }]), isPaused: false };
    }
    const items = batch.map((queued) => queued.json).join(',');
    const body = `{"spoolId":${JSON.stringify(this.#parts.spool.spoolId)},"sentAtMs":${Date.now()},"items":[${items}]}`;
    const outcome = await this.#parts.client.post(body);
    this.#parts.metrics.lastWorkerStatus.set(outcome.status);
    this.#parts.metrics.batches.inc({ outcome: outcome.kind });
    if (outcome.kind === 'unauthorized' || outcome.kind === 'unavailable') {
      if (outcome.kind === 'unavailable') this.#pause(outcome);
      else this.#pauseUnauthorized(outcome);
      return { items: new Set(batch), isPaused: true };
    }
    this.#noteWorkerAnswers();
    if (outcome.kind !== 'answered') return this.#deliverRefused(batch, outcome.reason, outcome.requestId);
    return { items: await this.#applyResults(batch, outcome.results, outcome.requestId), isPaused: false };
  }

  /** Halves the batch until the one message is found that the Worker refuses. */
  async #deliverRefused(batch: Queued[], reason: string, requestId: string | undefined): Promise<Unsent> {
    if (batch.length === 1) {
      const refused = batch.map((queued) => ({ queued, reason }));
      return { items: await this.#putAside(refused, requestId), isPaused: false };
    }
    this.#parts.log.info('the Worker refuses a batch: it goes up in halves', {
      reason,
      requestId,
      messages: batch.length,
    });
    const middle = Math.ceil(batch.length / 2);
    const first = await this.#deliver(batch.slice(0, middle));
    // A device whose earlier message was not taken waits, or its later one would overtake.
    const heldDevices = new Set([...first.items].map(({ device }) => device));
    const { held = [], free = [] } = Object.groupBy(batch.slice(middle), ({ device }) =>
      first.isPaused || heldDevices.has(device) ? 'held' : 'free',
    );
    const second = free.length === 0 ? first : await this.#deliver(free);
    return { items: new Set([...first.items, ...held, ...second.items]), isPaused: second.isPaused };
  }

  /** Answers what the Worker did not take. */
  async #applyResults(batch: Queued[], results: UplinkResult[], requestId: string | undefined): Promise<Set<Queued>> {
    const resultBySeq = new Map(results.map((result) => [result.seq, result]));
    const unsent = new Set<Queued>();
    const rejected: { queued: Queued; reason: string }[] = [];
    let retryReason: string | undefined;
    let dropped = 0;
    for (const queued of batch) {
      const { result, reason = 'no reason given' } = resultBySeq.get(queued.item.seq) ?? {
        result: 'retry',
        reason: 'not in the answer',
      };
      if (result === 'accepted') this.#parts.spool.markDone(queued.item);
      else if (result === 'rejected' && reason === droppedReason) {
        this.#parts.spool.markDone(queued.item);
        dropped += 1;
      } else if (result === 'rejected') rejected.push({ queued, reason });
      else {
        retryReason ??= reason;
        unsent.add(queued);
      }
    }
    const accepted = batch.length - rejected.length - dropped - unsent.size;
    for (const [result, count] of Object.entries({
      accepted,
      rejected: rejected.length,
      dropped,
      retry: unsent.size,
    })) {
      if (count > 0) this.#parts.metrics.items.inc({ result }, count);
    }
    if (unsent.size > 0) {
      const fields = { messages: unsent.size, firstReason: retryReason, requestId };
      this.#parts.log.info('the Worker does not take some messages now: they go up again', fields);
    }
    return new Set([...unsent, ...(await this.#putAside(rejected, requestId))]);
  }

  /** Into the dead letters; answers what could not be written there, and so must stay in the spool. */
  async #putAside(rejected: { queued: Queued; reason: string }[], requestId?: string): Promise<Set<Queued>> {
    const [first] = rejected;
    if (first === undefined) return new Set();
    const deadLetteredAt = new Date().toISOString();
    const { spoolId } = this.#parts.spool;
    const firstTopic = first.queued.item.topic;
    const about = { messages: rejected.length, firstTopic, firstReason: first.reason, requestId };
    try {
      await this.#parts.deadLetters.add(
        rejected.map(({ queued, reason }) => {
          const item: unknown = JSON.parse(queued.json);
          return { deadLetteredAt, reason, requestId, spoolId, item };
        }),
      );
    } catch (error) {
      this.#parts.log.error('dead letters cannot be written', { alarm: true, ...about, cause: describeError(error) });
      return new Set(rejected.map(({ queued }) => queued));
    }
    for (const { queued } of rejected) this.#parts.spool.markDone(queued.item);
    this.#parts.metrics.deadLetters.inc(rejected.length);
    this.#parts.log.warn('the Worker will never take some messages: they are in the dead letters', about);
    return new Set();
  }

  #noteWorkerAnswers(): void {
    if (this.#isFailing) this.#parts.log.info('the Worker takes messages again');
    this.#backOff.reset();
    this.#isUnauthorized = false;
    this.#pausedUntilMs = 0;
  }

  #pause({ cause, requestId, retryAfterMs }: Extract<UplinkOutcome, { kind: 'unavailable' }>): void {
    if (this.#isStopped) return;
    // Batches under way fail together: that is one failure.
    const isFirst = Date.now() >= this.#pausedUntilMs;
    const delayMs = Math.max(retryAfterMs, isFirst ? this.#backOff.nextDelayMs() : 0);
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, Date.now() + delayMs);
    const fields = { cause, requestId, retryInMs: Math.round(delayMs) };
    this.#parts.log[isFirst ? 'warn' : 'debug']('the Worker takes no messages', fields);
  }

  #pauseUnauthorized({ status, requestId }: UplinkOutcome): void {
    this.#isUnauthorized = true;
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

/** Writes an `UplinkItem` by hand: every message pays for it. */
function prepare(item: SpoolItem): Queued {
  const { seq, topic, payload, dup, retain, soleReader, redeliveryOf, receivedAtMs } = item;
  const content = isUtf8(payload)
    ? `"payload":${JSON.stringify(payload.toString())}`
    : `"payloadBase64":"${payload.toString('base64')}"`;
  let flags = '';
  if (retain) flags += ',"retain":true';
  if (dup) flags += ',"dup":true';
  if (soleReader) flags += ',"soleReader":true';
  if (redeliveryOf !== null) flags += `,"redeliveryOf":${redeliveryOf}`;
  const json = `{"seq":${seq},"topic":${JSON.stringify(topic)},${content}${flags},"receivedAtMs":${receivedAtMs}}`;
  // `/sys/{productKey}/{deviceId}`
  const device = topic.split('/', 4).join('/');
  return { item, device, receivedAtMs, json, bytes: Buffer.byteLength(json) + 1 };
}
