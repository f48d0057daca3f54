// Which bridge each device belongs to, in a file: a device that moves to another bridge is a new device for phones. Knows no
// Matter and no service, and forgets a device only when told to.
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import type { MatterConfig } from './config.ts';

const placesSchema = z.object({
  /** Tells this installation from others. */
  installationId: z.string().default(() => randomBytes(8).toString('hex')),
  /** The number of its bridge, from 1, by deviceId. */
  bridges: z.record(z.string(), z.int().min(1)).default({}),
});

export class Places {
  readonly installationId: string;
  readonly #bridges: Map<string, number>;
  readonly #path: string;
  readonly #devicesPerBridge: number;

  /** @throws Error if the folder cannot be used, or the file is damaged */
  constructor({ storageDir, devicesPerBridge }: MatterConfig) {
    mkdirSync(storageDir, { recursive: true, mode: 0o700 });
    this.#path = join(storageDir, 'places.json');
    this.#devicesPerBridge = devicesPerBridge;
    const text = existsSync(this.#path) ? readFileSync(this.#path, 'utf8') : '{}';
    const places = placesSchema.parse(JSON.parse(text));
    this.installationId = places.installationId;
    this.#bridges = new Map(Object.entries(places.bridges));
    this.#save();
  }

  /** Its own, or the first with room. */
  bridgeOf(deviceId: string): number {
    let bridge = this.#bridges.get(deviceId);
    if (bridge !== undefined) return bridge;
    const taken = Map.groupBy(this.#bridges.values(), (number) => number);
    for (bridge = 1; (taken.get(bridge)?.length ?? 0) >= this.#devicesPerBridge;) bridge += 1;
    this.#bridges.set(deviceId, bridge);
    this.#save();
    return bridge;
  }

  forgetUnless(isKnown: (deviceId: string) => boolean): void {
    for (const deviceId of this.#bridges.keys()) if (!isKnown(deviceId)) this.#bridges.delete(deviceId);
    this.#save();
  }

  #save(): void {
    const places = { installationId: this.installationId, bridges: Object.fromEntries(this.#bridges) };
    writeFileSync(`${this.#path}.new`, JSON.stringify(places));
    renameSync(`${this.#path}.new`, this.#path);
  }
}
