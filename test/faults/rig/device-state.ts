// What the owner of a device reads of it over the HTTP interface. Judges nothing.
import type { WorkerRig } from '../../../rig/worker/worker-rig.ts';
import { dataOf } from '../../../rig/clients/api.ts';

export type PositionChange = { position: string; time: string };

/** Properties by name, and the last changes of position, newest first. */
export async function readProperties(
  { owner }: WorkerRig,
  deviceId: string,
): Promise<{ properties: Map<string, unknown>; positionChanges: PositionChange[] }> {
  const { list, positionChanges } = await dataOf(
    owner.api.devices[':deviceId'].properties.$get({ param: { deviceId } }),
  );
  return { properties: new Map(list.map(({ name, value }) => [name, value])), positionChanges };
}
