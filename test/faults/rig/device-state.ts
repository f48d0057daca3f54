// What the owner of a device reads of it over the HTTP interface, and a count of the changes of position that its object stored.
// Unlike relay pushes they survive a restart of the Worker, and a batch applied twice adds to them even if the properties
// look the same.
import type { WorkerRig } from '../../../rig/worker/worker-rig.ts';
import { dataOf } from '../../../rig/clients/api.ts';

/** A device keeps so many: it has to be read before it made as many new ones. */
const historySize = 100;

export async function readDevice({ owner }: WorkerRig, deviceId: string) {
  return dataOf(owner.api.devices[':deviceId'].properties.$get({ param: { deviceId } }));
}

export class PositionCounter {
  readonly #seen = new Map<string, { latest: string[]; count: number }>();

  /** How many changes there were since the first call. */
  async count(worker: WorkerRig, deviceId: string): Promise<number> {
    const former = this.#seen.get(deviceId) ?? { latest: [], count: 0 };
    const { positionChanges } = await readDevice(worker, deviceId);
    const latest = positionChanges.map(({ position, time }) => `${position} ${time}`);
    const added = countNew(former.latest, latest);
    if (added >= historySize) throw new Error(`${deviceId} moved more often than it remembers`);
    const count = former.count + added;
    this.#seen.set(deviceId, { latest, count });
    return count;
  }
}

/** How many entries at the head of `latest` are new, so that the rest equals `former`. Both newest first. */
function countNew(former: string[], latest: string[]): number {
  const isRest = (added: number) => latest.slice(added).join() === former.slice(0, historySize - added).join();
  const added = latest.findIndex((_, index) => isRest(index));
  return added === -1 ? latest.length : added;
}
