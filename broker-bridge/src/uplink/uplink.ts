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
type Answered = Extract<UplinkOutcome, { kind: 'answered' }>;
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

export function createUplink(parts: Parts) {
  const { spool, client, deadLetters, log, metrics, floodGate, maxTries } = parts;
  const queue = new DeviceQueue<UplinkMessage>({
    onReady: send,
    onPark: (messages) => spool.release(messages.map(({ item }) => item)),
    onFetch: (device, seqs) => {
      runDetached(spool.fetch(seqs).then((items) => queue.addFetched(device, items.map(prepare))));
    },
  });
  const backOff = createBackOff({ baseMs: 200, capMs: 10_000 });
  const underWay: Record<QueueName, number> = { usual: 0, held: 0 };
  const progress = watchProgress({ ...parts, oldestReceivedAtMs: () => queue.oldestReceivedAtMs() });
  let isUnauthorized = false;
  let failuresInARow = 0;
  let takenMessages = 0;
  let pausedUntilMs = 0;
  /** The pause is this bridge's own back-off, not one that the Worker asked for. */
  let isBackingOff = false;
  let pauseTimer: NodeJS.Timeout | undefined;
  let lingerTimer: NodeJS.Timeout | undefined;
  let hasLingered = false;
  let isStopped = false;
  let onIdle: (() => void) | null = null;
  const isPaused = (): boolean => Date.now() < pausedUntilMs;
  const isFailing = (): boolean => backOff.failures > 0 || isUnauthorized;
  return { progress, isUnauthorized: () => isUnauthorized, start, resume, drain };

  function start(): void {
    spool.start((items) => {
      const released: SpoolItem[] = [];
      for (const item of items) {
        const device = deviceOf(item.topic);
        if (queue.mustWait(device)) {
          queue.addLater(device, item.seq);
          released.push(item);
        } else queue.add(prepare(item));
      }
      send();
      return released;
    });
  }

  /** The link to the Worker is back: ends a back-off, but no pause that the Worker asked for. */
  function resume(): void {
    if (!isBackingOff) return;
    pausedUntilMs = 0;
    send();
  }

  /** Sends for at most `maxMs` and only while the Worker takes messages; afterwards it sends nothing more. */
  async function drain(maxMs: number): Promise<void> {
    const timer = setTimeout(stop, maxMs);
    await new Promise<void>((resolve) => {
      onIdle = resolve;
      checkIdle();
    });
    clearTimeout(timer);
    stop();
  }

  function stop(): void {
    isStopped = true;
    progress.stop();
    clearTimeout(pauseTimer);
    clearTimeout(lingerTimer);
    client.close();
    checkIdle();
  }

  function checkIdle(): void {
    if (onIdle === null || underWay.usual + underWay.held > 0) return;
    const isDrained = queue.size === 0 && spool.depth === 0;
    if (isDrained || isStopped || isFailing()) onIdle();
  }

  function send(): void {
    for (;;) {
      const name = nextQueue();
      if (name === undefined) return;
      const pauseMs = pausedUntilMs - Date.now();
      if (pauseMs > 0) {
        clearTimeout(pauseTimer);
        pauseTimer = setTimeout(send, pauseMs);
        return;
      }
      const mayGather = name === 'usual' && underWay.usual > 0 && !queue.fills(batchLimits);
      if (mayGather && !hasLingered) {
        lingerTimer ??= setTimeout(() => {
          lingerTimer = undefined;
          hasLingered = true;
          send();
        }, lingerMs);
        return;
      }
      hasLingered = false;
      clearTimeout(lingerTimer);
      lingerTimer = undefined;
      const room = windows[name] - underWay[name];
      runDetached(sendBatch(name, queue.takeBatch(name, batchLimits, room)));
    }
  }

  /** The queue from which a batch can be sent now. Devices that were not served lately must not hold up the others. */
  function nextQueue(): QueueName | undefined {
    if (isStopped) return undefined;
    // While the Worker fails, one batch at a time finds out whether it is back.
    if (isFailing() && underWay.usual + underWay.held > 0) return undefined;
    const isOpen = (name: QueueName): boolean => queue.isReady(name) && underWay[name] < windows[name];
    return (['held', 'usual'] as const).find(isOpen);
  }

  async function sendBatch(name: QueueName, batch: UplinkMessage[]): Promise<void> {
    underWay[name] += 1;
    const unsent = await post(batch);
    underWay[name] -= 1;
    metrics.retries.inc(unsent.size);
    queue.finish(batch, unsent);
    checkIdle();
    send();
  }

  async function post(batch: UplinkMessage[]): Promise<Unsent> {
    if (batch.length === 0) return new Map();
    const items = batch.map((queued) => queued.json).join(',');
    const dropped = floodGate.takeDropped(Date.now());
    const counts = dropped.length === 0 ? '' : `"dropped":${JSON.stringify(dropped)},`;
    const body = `{"spoolId":"${spool.spoolId}","sentAtMs":${Date.now()},${counts}"items":[${items}]}`;
    const outcome = await client.post(body);
    metrics.lastWorkerStatus.set(outcome.status);
    metrics.batches.inc({ outcome: outcome.kind });
    switch (outcome.kind) {
      case 'unauthorized':
        pauseUnauthorized(outcome);
        return mapAll(batch, false);
      case 'unavailable':
        pause(outcome);
        return mapAll(batch, false);
      case 'failed':
        return postFailed(batch, outcome);
      case 'too-large':
      case 'invalid':
        noteWorkerAnswers();
        if (batch.length > 1) return postHalves(batch, outcome.reason, outcome.requestId);
        return putAside(mapAll(batch, outcome.reason), outcome.requestId);
      case 'answered':
        noteWorkerAnswers();
        metrics.reportSeconds.observe(ageOfOldestMs(batch) / 1000);
        return applyResults(batch, outcome);
    }
  }

  /** The Worker itself failed: with some message of the batch, or with everything. */
  async function postFailed(batch: UplinkMessage[], { cause, requestId }: Cause): Promise<Unsent> {
    failuresInARow += 1;
    if (failuresInARow > maxFailuresInARow) {
      pause({ cause, requestId, retryAfterMs: 0 });
      failuresInARow = 0;
    } else if (batch.length > 1) return postHalves(batch, cause, requestId);
    else if (batch.every(isHopeless)) return putAside(mapAll(batch, cause), requestId);
    return mapAll(batch, batch.length === 1);
  }

  /** Halves the batch until the one message is found that the Worker does not take. */
  async function postHalves(batch: UplinkMessage[], reason: string, requestId: string | undefined): Promise<Unsent> {
    const messages = batch.length;
    log.info('the Worker refuses a batch: it goes up in halves', { reason, requestId, messages });
    const middle = Math.ceil(batch.length / 2);
    const first = await post(batch.slice(0, middle));
    // A device whose earlier message was not taken waits, or its later one would overtake.
    const heldDevices = new Set([...first.keys()].map(({ device }) => device));
    const { held = [], free = [] } = Object.groupBy(batch.slice(middle), ({ device }) =>
      isPaused() || heldDevices.has(device) ? 'held' : 'free',
    );
    return new Map([...mapAll(held, false), ...first, ...(await post(free))]);
  }

  async function applyResults(batch: UplinkMessage[], { results, requestId }: Answered): Promise<Unsent> {
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
      if (result === 'accepted') finish(queued);
      else if (result === 'rejected' && reason === protocol.droppedReason) {
        finish(queued);
        dropped += 1;
      } else if (result === 'rejected') rejected.set(queued, reason);
      else {
        retryReason ??= reason;
        unsent.set(queued, true);
        if (reason === protocol.messageFailed) failed.push(queued);
      }
    }
    const accepted = batch.length - rejected.size - dropped - unsent.size;
    takenMessages += accepted;
    for (const queued of failed.filter(isHopeless)) {
      unsent.delete(queued);
      rejected.set(queued, protocol.messageFailed);
    }
    const counts = { accepted, rejected: rejected.size, dropped, retry: unsent.size };
    for (const [result, count] of Object.entries(counts)) {
      if (count > 0) metrics.items.inc({ result }, count);
    }
    if (unsent.size > 0) {
      if (accepted === 0) progress.trouble = 'devices_not_served';
      const fields = { messages: unsent.size, firstReason: retryReason, requestId };
      log.info('the Worker does not take some messages now: they go up again', fields);
    }
    return new Map([...unsent, ...(await putAside(rejected, requestId))]);
  }

  /**
   * A message failed by itself, again and again, and each time others were taken in between. While nothing else is taken,
   * the Worker or the object is in trouble, and no try counts.
   */
  function isHopeless({ failures }: UplinkMessage): boolean {
    if (takenMessages > failures.takenBefore) {
      failures.tries += 1;
      failures.takenBefore = takenMessages;
    }
    return failures.tries >= maxTries;
  }

  /** Writes to the dead letters. Answers what could not be written there, and so must stay in the spool. */
  async function putAside(rejected: Map<UplinkMessage, string>, requestId?: string): Promise<Unsent> {
    const [first] = rejected;
    if (first === undefined) return new Map();
    const deadLetteredAt = new Date().toISOString();
    const [{ item }, firstReason] = first;
    const about = { messages: rejected.size, firstTopic: item.topic, firstReason, requestId };
    try {
      const letters = Array.from(rejected, ([{ letter }, reason]) => {
        return { deadLetteredAt, reason, requestId, spoolId: spool.spoolId, item: JSON.parse(letter) as unknown };
      });
      await deadLetters.add(letters);
    } catch (error) {
      progress.trouble = 'dead_letters_unwritable';
      log.error('dead letters cannot be written', { alarm: true, ...about, cause: describeError(error) });
      return mapAll([...rejected.keys()], true);
    }
    for (const queued of rejected.keys()) finish(queued);
    metrics.deadLetters.inc(rejected.size);
    log.warn('some messages will never be taken: they are in the dead letters', about);
    return new Map();
  }

  function finish({ item }: UplinkMessage): void {
    spool.markDone(item);
    progress.noteDone();
  }

  function noteWorkerAnswers(): void {
    if (isFailing()) log.info('the Worker takes messages again');
    backOff.failures = 0;
    isUnauthorized = false;
    isBackingOff = false;
    pausedUntilMs = 0;
    failuresInARow = 0;
  }

  function pause({ cause, requestId, retryAfterMs }: Cause & { retryAfterMs: number }): void {
    if (isStopped) return;
    progress.trouble = 'worker_unavailable';
    // Batches under way fail together: that is one failure.
    const isFirst = !isPaused();
    const delayMs = Math.max(retryAfterMs, isFirst ? backOff.nextDelayMs() : 0);
    pausedUntilMs = Math.max(pausedUntilMs, Date.now() + delayMs);
    isBackingOff = retryAfterMs === 0;
    const fields = { cause, requestId, retryInMs: Math.round(delayMs) };
    log[isFirst ? 'warn' : 'debug']('the Worker takes no messages', fields);
  }

  function pauseUnauthorized({ status, requestId }: UplinkOutcome): void {
    isUnauthorized = true;
    isBackingOff = false;
    progress.trouble = 'secret_refused';
    pausedUntilMs = Date.now() + unauthorizedRetryMs;
    log.error('the Worker refuses the bridge secret: messages stay in the spool', {
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
