// Counts the changes of position that the devices' objects stored. Unlike relay pushes they survive a restart of the
// Worker, and a batch applied twice adds to them even if the properties look the same.
import type { WorkerRig } from '../../../rig/worker/worker-rig.ts';
import { readProperties, type PositionChange } from './device-state.ts';

/** A device keeps so many: it has to be read before it made as many new ones. */
const historySize = 100;

export class PositionCounter {
  readonly #seen = new Map<string, { latest: PositionChange[]; count: number }>();

  /** How many changes there were since the first call. */
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

/** How many entries at the head of `latest` are new, so that the rest equals `former`. Both newest first. */
function countNew(former: PositionChange[], latest: PositionChange[]): number {
  for (let added = 0; added < latest.length; added += 1) {
    const rest = latest.slice(added);
    const left = former.slice(0, historySize - added);
    if (rest.length === left.length && rest.every((change, index) => isSame(change, left[index]))) return added;
  }
  return latest.length;
}

function isSame(change: PositionChange, previous: PositionChange | undefined): boolean {
  return change.position === previous?.position && change.time === previous.time;
}
