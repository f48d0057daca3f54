// How often something may happen: a token bucket, and buckets by name. Memory only, so that a restart fills them.

export type Rate = { burst: number; perSecond: number };
/** Fewer tokens than none are owed: they were taken in advance. */
export type Bucket = { tokens: number; atMs: number };

export function fullBucket({ burst }: Rate, nowMs: number): Bucket {
  return { tokens: burst, atMs: nowMs };
}

export function takeToken(bucket: Bucket, rate: Rate, nowMs: number, cost = 1): boolean {
  return takeInAdvance(bucket, rate, 0, nowMs, cost) !== undefined;
}

/** @param cost in tokens: those beyond the first may be owed, and delay what comes next */
export function takeInAdvance(bucket: Bucket, rate: Rate, maxWaitMs: number, nowMs: number, cost = 1) {
  refill(bucket, rate, nowMs);
  const waitMs = waitForTokenMs(bucket, rate, nowMs);
  if (waitMs > maxWaitMs) return undefined;
  bucket.tokens -= cost;
  return waitMs;
}

export function waitForTokenMs(bucket: Bucket, rate: Rate, nowMs: number): number {
  refill(bucket, rate, nowMs);
  return bucket.tokens >= 1 ? 0 : ((1 - bucket.tokens) / rate.perSecond) * 1000;
}

function refill(bucket: Bucket, { burst, perSecond }: Rate, nowMs: number): void {
  bucket.tokens = Math.min(burst, bucket.tokens + (Math.max(0, nowMs - bucket.atMs) / 1000) * perSecond);
  bucket.atMs = Math.max(bucket.atMs, nowMs);
}

/** A bucket as a plain value, with one minute's worth; null is a full one. */
export type Spent = Readonly<Bucket> | null;
export const unspent: Spent = null;

/** An event that is older than the bucket by more than this is from a backlog, which has a rate of its own. */
const clockSlackMs = 10_000;

export function spend(spent: Spent, perMinute: number, atMs: number): Readonly<Bucket> | undefined {
  const rate = minuteRate(perMinute);
  const isBacklog = spent !== null && atMs < spent.atMs - clockSlackMs;
  const bucket = spent === null || isBacklog ? fullBucket(rate, atMs) : { ...spent };
  return takeToken(bucket, rate, atMs) ? bucket : undefined;
}

export function roomAtMs(spent: Spent, perMinute: number, nowMs: number): number {
  return spent === null ? nowMs : nowMs + Math.ceil(waitForTokenMs({ ...spent }, minuteRate(perMinute), nowMs));
}

function minuteRate(perMinute: number): Rate {
  return { burst: perMinute, perSecond: perMinute / 60 };
}

export class Buckets {
  readonly #rate: Rate;
  readonly #maxKept: number;
  readonly #buckets = new Map<string, Bucket>();

  constructor(rate: Rate, maxKept: number) {
    this.#rate = rate;
    this.#maxKept = maxKept;
  }

  take(name: string, nowMs: number, cost = 1): boolean {
    return takeToken(this.#bucketOf(name, nowMs), this.#rate, nowMs, cost);
  }

  takeInAdvance(name: string, maxWaitMs: number, nowMs: number, cost = 1): number | undefined {
    return takeInAdvance(this.#bucketOf(name, nowMs), this.#rate, maxWaitMs, nowMs, cost);
  }

  #bucketOf(name: string, nowMs: number): Bucket {
    const existing = this.#buckets.get(name);
    if (existing !== undefined) return existing;
    if (this.#buckets.size >= this.#maxKept) this.#dropFull(nowMs);
    const bucket = fullBucket(this.#rate, nowMs);
    this.#buckets.set(name, bucket);
    return bucket;
  }

  #dropFull(nowMs: number): void {
    for (const [name, bucket] of this.#buckets) {
      refill(bucket, this.#rate, nowMs);
      if (bucket.tokens >= this.#rate.burst) this.#buckets.delete(name);
    }
  }
}
