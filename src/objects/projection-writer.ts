// Writes the projections of all devices to D1, in batches, one after the other and no faster than a limit: after a
// mass reconnect D1 still has time for activations and logins. In memory: a device asks again until it is written.
import { DurableObject } from 'cloudflare:workers';
import { readConfig } from '../config.ts';
import { openDatabase } from '../db/client.ts';
import { writeProjections } from '../db/devices/devices.ts';
import type { Projection } from '../domain/device/core/events.ts';
import type { ProjectionOutcome } from '../domain/device/presence/projection.ts';
import { orFailed } from './calls/background.ts';

type Waiting = { deviceId: string; projection: Projection; resolve: (outcome: ProjectionOutcome) => void };

const maxBatch = 50;
/** The calls of waiting devices stay open meanwhile. */
const maxWaiting = 1_000;

export class ProjectionWriter extends DurableObject<Env> {
  readonly #waiting: Waiting[] = [];
  #isWriting = false;
  /** When the last device that found no place was told to come again. */
  #lastTurnMs = 0;

  /** Answers when D1 has it; if too many wait already, at once with the time to come again. */
  write(deviceId: string, projection: Projection): Promise<ProjectionOutcome> {
    const { projectionsPerSecond } = readConfig(this.env).limits;
    if (this.#waiting.length >= maxWaiting) {
      const nowMs = Date.now();
      const freeAtMs = nowMs + (this.#waiting.length * 1000) / projectionsPerSecond;
      this.#lastTurnMs = Math.max(this.#lastTurnMs, freeAtMs) + 1000 / projectionsPerSecond;
      return Promise.resolve({ retryAfterMs: Math.ceil(this.#lastTurnMs - nowMs) });
    }
    const { promise, resolve } = Promise.withResolvers<ProjectionOutcome>();
    this.#waiting.push({ deviceId, projection, resolve });
    if (!this.#isWriting) this.ctx.waitUntil(this.#writeAll(projectionsPerSecond));
    return promise;
  }

  async #writeAll(perSecond: number): Promise<void> {
    this.#isWriting = true;
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, maxBatch);
      const startedAtMs = Date.now();
      const written = writeProjections(openDatabase(this.env.DB), batch).then(() => 'written' as const);
      const outcome = await orFailed('projections not written', { devices: batch.length }, written);
      for (const { resolve } of batch) resolve(outcome);
      const tookMs = Math.max(0, Date.now() - startedAtMs);
      await scheduler.wait(Math.max((batch.length * 1000) / perSecond - tookMs, 0));
    }
    this.#isWriting = false;
  }
}
