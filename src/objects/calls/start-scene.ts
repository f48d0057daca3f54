// Starts the run of a scene: for a request, and for a schedule. Rights are decided by each device.
import type { Database } from '../../db/client.ts';
import { findCollection } from '../../db/collections.ts';
import type { Actor } from '../../domain/access.ts';
import { refuse } from '../../domain/refusal.ts';
import type { SceneContent } from '../../protocol/http/collections.ts';
import { callBulk } from './stubs.ts';

/** The same run again is the same run, also if the scene was changed since. */
export async function startScene(env: Env, database: Database, actor: Actor, sceneId: string, bulkId: string) {
  const row = await findCollection(database, { userId: actor.userId, kind: 'scene', id: sceneId });
  if (row === undefined) return refuse({ kind: 'not_found', what: 'scene', id: sceneId });
  const { items: content, putBack, deadlineSeconds } = row.content as SceneContent;
  const scene = { sceneId, name: row.name, putBack, deadlineSeconds };
  const order = { actor, digest: sceneId, dryRun: false, maxInFlight: 100, scene, fleet: null };
  const items = content.map(({ deviceId, command: params }) => ({ deviceId, params }));
  return callBulk(env, bulkId, 'idempotent').start(order, items);
}
