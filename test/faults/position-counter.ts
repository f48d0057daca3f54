// Counts the changes of position that the devices' objects wrote down. It outlives the Worker, unlike a relay, and a
// batch in effect twice adds to it where properties look the same. It must not know why a device moved.
import type { WorkerRig } from '../rig/worker-rig.ts';
import { readProperties, type PositionChange } from './device-state.ts';

/** A device keeps so many: it has to be read before it made as many new ones. */
const historySize = 100;

export class PositionCounter {
  readonly #seen = new Map<string, { latest: PositionChange[]; count: number }>();

  /** Answers how many there were since the first one. */
  async count(worker: WorkerRig, deviceId: string): Promise<number> {
    const former = this.#seen.get(deviceId) ?? { latest: [], count: 0 };
    const { positionChanges: latest } = await readProperties(worker, deviceId);
    const added = countNew(former.latest, latest);
    if (added >= historySize) throw new Error(`${deviceId} moved more often than it remembers`);
    const count = former.count + added;
    this.#seen.set(deviceId, { latest, count });
    return count;
  }
}

/** Both newest first: the fewest new ones after which the rest is what was there before. */
function countNew(former: PositionChange[], latest: PositionChange[]): number {
  for (let added = 0; added < latest.length; added += 1) {
    const rest = latest.slice(added);
    const left = former.slice(0, historySize - added);
    if (rest.length === left.length && rest.every((change, index) => isSame(change, left[index]))) return added;
  }
  return latest.length;
}

function isSame(one: PositionChange, other: PositionChange | undefined): boolean {
  return one.position === other?.position && one.time === other.time;
}
