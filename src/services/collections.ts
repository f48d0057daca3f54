// Groups and scenes of a user: made, listed, changed, deleted, and which devices a group has. Nothing here gives a right: each
// device decides whenever it is asked. A key that is held to a product sees all of its user's.
import type { ServiceContext } from '../context.ts';
import { createId } from '../crypto/secrets.ts';
import * as db from '../db/collections.ts';
import { findDeviceIds } from '../db/devices/devices.ts';
import { listDevices } from '../db/devices/lists.ts';
import type { Actor } from '../domain/access.ts';
import { parseControl } from '../domain/control-command.ts';
import type { PageRequest } from '../domain/pagination.ts';
import { invalidInput, limitReached, notFound, RefusedError, unwrap, wireErrorOf } from '../domain/refusal.ts';
import { toIso } from '../domain/time.ts';
import { holdToUserRate } from '../pacing/rate-limits.ts';
import type { GroupBody, GroupContent, SceneBody, SceneContent } from '../protocol/http/collections.ts';
import { viewsOf } from './devices/views.ts';

type Bodies = { group: GroupBody; scene: SceneBody };
type Contents = { group: GroupContent; scene: SceneContent };
type Kind = keyof Contents;
type View<K extends Kind> = Contents[K] & Record<`${K}Id` | 'name' | 'createdAt', string>;
type Change<K extends Kind> = { [Name in keyof Bodies[K]]?: Bodies[K][Name] | undefined };

const maxPerUser = 100;
const maxDevices = 500;
const askedAtOnce = 50;

/** What is stored of a body. @throws RefusedError for members that do not go together */
const read: { [K in Kind]: (body: Bodies[K]) => Contents[K] } = {
  group({ deviceIds = null, tag = null, productKey = null }) {
    if ((deviceIds === null) === (tag === null)) throw invalidInput('deviceIds', 'either these or `tag`');
    if (productKey !== null && tag === null) throw invalidInput('productKey', 'only with `tag`');
    return { deviceIds, tag, productKey };
  },
  scene({ items: list, putBack = false, deadlineSeconds = 30 }) {
    const items = list.map(({ deviceId, command }) => ({ deviceId, command: unwrap(parseControl(command)) }));
    const isDistinct = new Set(items.map(({ deviceId }) => deviceId)).size === items.length;
    if (!isDistinct) throw invalidInput('items', 'one for each device');
    return { items, putBack, deadlineSeconds };
  },
};

export function collectionsOf<K extends Kind>(context: ServiceContext, { userId }: Actor, kind: K) {
  const database = context.primary();
  const viewOf = ({ id, name, content, createdAt }: db.CollectionRow) =>
    ({ [`${kind}Id`]: id, name, ...content, createdAt: toIso(createdAt) }) as unknown as View<K>;

  async function find(id: string) {
    const row = await db.findCollection(database, { userId, kind, id });
    if (row === undefined) throw notFound(kind, id);
    return row;
  }

  return {
    async create(body: Bodies[K]) {
      const content = read[kind](body);
      const row = { id: createId('', 16), userId, kind, name: body.name, content, createdAt: Date.now() };
      if (await db.insertCollection(database, row, maxPerUser)) return viewOf(row);
      throw limitReached(`${kind}sPerUser`, maxPerUser);
    },

    async list(page: PageRequest) {
      const { total, rows } = await db.listCollections(database, { userId, kind }, page);
      return { list: rows.map(viewOf), total, ...page };
    },

    read: async (id: string) => viewOf(await find(id)),

    async change(id: string, change: Change<K>) {
      const former = await find(id);
      const body = { name: former.name, ...former.content, ...change } as unknown as Bodies[K];
      const row = { ...former, name: body.name, content: read[kind](body) };
      await db.updateCollection(database, row);
      return viewOf(row);
    },

    async delete(id: string) {
      if (!(await db.deleteCollection(database, { userId, kind, id }))) throw notFound(kind, id);
      return { [`${kind}Id`]: id } as Record<`${K}Id`, string>;
    },
  };
}

type Choice = { [Name in keyof GroupContent | 'groupId']?: (GroupContent & { groupId: string })[Name] | undefined };

/** At most 500; of a tag the newest. @throws RefusedError not_found for a group that is not the user's */
export async function deviceIdsOf(context: ServiceContext, actor: Actor, choice: Choice): Promise<string[]> {
  const { groupId } = choice;
  const asked = groupId === undefined ? choice : await collectionsOf(context, actor, 'group').read(groupId);
  if (asked.deviceIds) return asked.deviceIds;
  const productKey = asked.productKey ?? actor.productKey ?? undefined;
  if (actor.productKey !== null && productKey !== actor.productKey) return [];
  const filter = { userId: actor.userId, productKey, tag: asked.tag ?? '', deviceIds: actor.deviceIds };
  const { rows } = await listDevices(context.primary(), filter, { page: 1, size: maxDevices }, undefined);
  return rows.map(({ device }) => device.deviceId);
}

/** The group and what is true of its devices now. Costs as much as one read for each ten of them. */
export async function readGroup(context: ServiceContext, actor: Actor, groupId: string) {
  const group = await collectionsOf(context, actor, 'group').read(groupId);
  const deviceIds = await deviceIdsOf(context, actor, { ...group, groupId: undefined });
  await holdToUserRate(context, actor.userId, 'read', Math.ceil(deviceIds.length / 10));
  // An id that no device has would wake an object of its own.
  const known = await findDeviceIds(context.primary(), deviceIds);
  const ask = async (deviceId: string) => {
    try {
      if (!known.has(deviceId)) throw notFound('device', deviceId);
      const { deviceName: name, online, position } = await viewsOf(context, actor, deviceId).status();
      return { deviceId, name, online, position };
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      return { deviceId, name: null, online: false, position: null, refused: wireErrorOf(error.refusal).message };
    }
  };
  const devices: Awaited<ReturnType<typeof ask>>[] = [];
  for (let first = 0; first < deviceIds.length; first += askedAtOnce) {
    devices.push(...(await Promise.all(deviceIds.slice(first, first + askedAtOnce).map(ask))));
  }
  const counts = { up: 0, middle: 0, down: 0, unknown: 0, offline: 0, forbidden: 0 };
  for (const { online, position, refused } of devices) {
    if (refused !== undefined) counts[refused === 'forbidden' ? refused : 'unknown'] += 1;
    else counts[online ? (position ?? 'unknown') : 'offline'] += 1;
  }
  return { ...group, counts, devices };
}
