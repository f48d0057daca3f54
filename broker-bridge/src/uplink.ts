// Brings spooled messages to the Worker and keeps at it until each one is answered for: batches, several under way,
// retries for ever. It must not drop a message, nor send two batches with one device's messages at the same time.
import { isUtf8 } from 'node:buffer';
import { maxBatchBytes, maxBatchDevices, maxBatchItems, type UplinkResult } from '../../src/protocol/bridge.ts';
import { BackOff } from './back-off.ts';
import type { DeadLetters } from './dead-letters.ts';
import { DeviceQueue, nameDevice } from './device-queue.ts';
import { describeError, type Log } from './log.ts';
import type { Metrics } from './metrics.ts';
import type { SpoolItem } from './spool-database.ts';
import type { Spool } from './spool.ts';
import type { UplinkClient, UplinkOutcome } from './uplink-client.ts';

type Queued = { item: SpoolItem; device: string; receivedAtMs: number; json: string; bytes: number };

/** Enough full ones for a Worker 30 ms away; with more, a device's messages would gather less and its calls be more. */
const maxBatchesUnderWay = 3;
/** How long a message waits for company while other batches are under way. */
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
  readonly #spool: Spool;
  readonly #client: UplinkClient;
  readonly #deadLetters: DeadLetters;
  readonly #log: Log;
  readonly #metrics: Metrics;
  readonly #queue = new DeviceQueue<Queued>(() => this.#send());
  readonly #backOff = new BackOff({ baseMs: 200, capMs: 10_000 });
  #underWay = 0;
  #pausedUntilMs = 0;
  #timer: NodeJS.Timeout | undefined;
  #linger: 'no' | 'waiting' | 'over' = 'no';
  #isUnauthorized = false;
  #isStopped = false;
  #onIdle: (() => void) | null = null;

  constructor(options: { spool: Spool; client: UplinkClient; deadLetters: DeadLetters; log: Log; metrics: Metrics }) {
    this.#spool = options.spool;
    this.#client = options.client;
    this.#deadLetters = options.deadLetters;
    this.#log = options.log;
    this.#metrics = options.metrics;
  }

  /** The Worker refused the bridge secret the last time it was asked. */
  get isUnauthorized(): boolean {
    return this.#isUnauthorized;
  }

  oldestReceivedAtMs(): number | null {
    return this.#queue.oldestReceivedAtMs();
  }

  start(): void {
    this.#spool.start((items) => {
      for (const item of items) this.#queue.add(prepare(item));
      this.#send();
    });
  }

  /** Sends what it can within `maxMs`, as long as the Worker takes it, and then nothing more. */
  async drain(maxMs: number): Promise<void> {
    const timer = setTimeout(() => this.#stop(), maxMs);
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve;
      this.#settleIfIdle();
    });
    clearTimeout(timer);
    this.#stop();
  }

  #stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    this.#client.close();
    this.#settleIfIdle();
  }

  #settleIfIdle(): void {
    if (this.#onIdle === null || this.#underWay > 0) return;
    const isDrained = this.#queue.size === 0 && this.#spool.depth === 0;
    if (isDrained || this.#isStopped || this.#backOff.failures > 0 || this.#isUnauthorized) this.#onIdle();
  }

  #send(): void {
    while (!this.#isStopped && this.#queue.readyItems > 0) {
      const pauseMs = this.#pausedUntilMs - Date.now();
      if (pauseMs > 0) {
        this.#sendAfter(pauseMs);
        return;
      }
      // While the Worker fails, one batch at a time feels whether it is back.
      const limit = this.#backOff.failures > 0 || this.#isUnauthorized ? 1 : maxBatchesUnderWay;
      if (this.#underWay >= limit) return;
      if (this.#underWay > 0 && !this.#queue.fills(batchLimits) && this.#linger !== 'over') {
        if (this.#linger === 'no') this.#startLinger();
        return;
      }
      this.#linger = 'no';
      void this.#sendBatch(this.#queue.takeBatch(batchLimits));
    }
  }

  #sendAfter(delayMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#send(), delayMs);
  }

  #startLinger(): void {
    this.#linger = 'waiting';
    setTimeout(() => {
      if (this.#linger === 'waiting') this.#linger = 'over';
      this.#send();
    }, lingerMs);
  }

  async #sendBatch(batch: Queued[]): Promise<void> {
    this.#underWay += 1;
    const { kept, isPaused } = await this.#deliver(batch);
    this.#underWay -= 1;
    this.#metrics.retries.inc(kept.size);
    this.#queue.settle(batch, kept, isPaused);
    this.#settleIfIdle();
    this.#send();
  }

  /** Answers which items are still to be delivered, and whether all sending pauses because of it. */
  async #deliver(batch: Queued[]): Promise<{ kept: Set<Queued>; isPaused: boolean }> {
    const outcome = await this.#post(batch);
    this.#metrics.lastWorkerStatus.set(this.#client.lastStatus);
    this.#metrics.batches.inc({ outcome: outcome.kind });
    switch (outcome.kind) {
      case 'answered':
        this.#noteWorkerAnswers();
        return { kept: await this.#settleResults(batch, outcome.results), isPaused: false };
      case 'too-large':
      case 'invalid':
        this.#noteWorkerAnswers();
        if (batch.length > 1) return this.#deliverHalves(batch);
        return { kept: new Set(await this.#bury(withReason(batch, describeRefusal(outcome)))), isPaused: false };
      case 'unauthorized':
        this.#pauseUnauthorized(outcome.status);
        return { kept: new Set(batch), isPaused: true };
      case 'unavailable':
        this.#pause(outcome.cause, outcome.retryAfterMs);
        return { kept: new Set(batch), isPaused: true };
    }
  }

  async #deliverHalves(batch: Queued[]): Promise<{ kept: Set<Queued>; isPaused: boolean }> {
    const middle = Math.ceil(batch.length / 2);
    const first = await this.#deliver(batch.slice(0, middle));
    // A device whose earlier message was not taken waits, or its later one would overtake.
    const heldDevices = new Set([...first.kept].map(({ device }) => device));
    const free = batch.slice(middle).filter((queued) => !first.isPaused && !heldDevices.has(queued.device));
    const second = free.length === 0 ? { kept: new Set<Queued>(), isPaused: false } : await this.#deliver(free);
    const held = batch.slice(middle).filter((queued) => !free.includes(queued));
    return { kept: new Set([...first.kept, ...held, ...second.kept]), isPaused: first.isPaused || second.isPaused };
  }

  async #post(batch: Queued[]): Promise<UplinkOutcome> {
    const items = batch.map((queued) => queued.json).join(',');
    const spoolId = JSON.stringify(this.#spool.spoolId);
    const body = `{"spoolId":${spoolId},"sentAtMs":${Date.now()},"items":[${items}]}`;
    const [only] = batch;
    if (batch.length === 1 && only !== undefined && only.bytes + envelopeBytes > maxBatchBytes)
      return { kind: 'too-large' };
    return this.#client.post(body);
  }

  async #settleResults(batch: Queued[], results: UplinkResult[]): Promise<Set<Queued>> {
    const resultBySeq = new Map(results.map((result) => [result.seq, result]));
    const kept = new Set<Queued>();
    const rejected: { queued: Queued; reason: string }[] = [];
    const counts: Record<UplinkResult['result'], number> = { accepted: 0, rejected: 0, retry: 0 };
    for (const queued of batch) {
      const { result, reason } = resultBySeq.get(queued.item.seq) ?? { result: 'retry' };
      counts[result] += 1;
      if (result === 'accepted') this.#spool.markDone(queued.item);
      else if (result === 'retry') kept.add(queued);
      else rejected.push({ queued, reason: reason ?? 'no reason given' });
    }
    for (const [result, count] of Object.entries(counts)) if (count > 0) this.#metrics.items.inc({ result }, count);
    for (const unburied of await this.#bury(rejected)) kept.add(unburied);
    return kept;
  }

  /** Into the dead letters; answers what could not even be written there, and so must not be forgotten. */
  async #bury(rejected: { queued: Queued; reason: string }[]): Promise<Queued[]> {
    const [first] = rejected;
    if (first === undefined) return [];
    const buriedAt = new Date().toISOString();
    const about = { messages: rejected.length, firstTopic: first.queued.item.topic, firstReason: first.reason };
    try {
      await this.#deadLetters.add(
        rejected.map(({ queued, reason }) => {
          const item: unknown = JSON.parse(queued.json);
          return { buriedAt, reason, spoolId: this.#spool.spoolId, item };
        }),
      );
    } catch (error) {
      this.#log.error('dead letters cannot be written', { alarm: true, ...about, cause: describeError(error) });
      return rejected.map(({ queued }) => queued);
    }
    for (const { queued } of rejected) this.#spool.markDone(queued.item);
    this.#metrics.deadLetters.inc(rejected.length);
    this.#log.warn('the Worker will never take some messages: they are in the dead letters', about);
    return [];
  }

  #noteWorkerAnswers(): void {
    if (this.#backOff.failures > 0 || this.#isUnauthorized) this.#log.info('the Worker takes messages again');
    this.#backOff.reset();
    this.#isUnauthorized = false;
    this.#pausedUntilMs = 0;
  }

  #pause(cause: string, retryAfterMs: number): void {
    if (this.#isStopped) return;
    // Batches under way fail together: that is one failure.
    const isFirst = Date.now() >= this.#pausedUntilMs;
    const delayMs = Math.max(retryAfterMs, isFirst ? this.#backOff.nextDelayMs() : 0);
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, Date.now() + delayMs);
    if (isFirst) this.#log.warn('the Worker takes no messages', { cause, retryInMs: Math.round(delayMs) });
  }

  #pauseUnauthorized(status: number): void {
    this.#isUnauthorized = true;
    this.#pausedUntilMs = Date.now() + unauthorizedRetryMs;
    this.#log.error('the Worker refuses the bridge secret: messages stay in the spool', {
      alarm: true,
      status,
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
  return { item, device: nameDevice(topic), receivedAtMs, json, bytes: Buffer.byteLength(json) + 1 };
}

function withReason(batch: Queued[], reason: string): { queued: Queued; reason: string }[] {
  return batch.map((queued) => ({ queued, reason }));
}

function describeRefusal(outcome: { kind: 'too-large' } | { kind: 'invalid'; message: string }): string {
  return outcome.kind === 'too-large' ? 'too large for one request' : outcome.message;
}
