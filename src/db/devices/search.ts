// Devices whose name, serial number or id begins with a text. What a search costs does not depend on how many devices there
// are: from each index as many rows are read as the limit says, and what else is asked for is looked for among them.
import { and, asc, desc, eq, gte, inArray, lt, sql, type SQL } from 'drizzle-orm';
import { memberRoles } from '../../protocol/vocabulary.ts';
import type { PageRequest } from '../../domain/pagination.ts';
import type { Database } from '../client.ts';
import { listRoles, type DeviceFilter, type ListedDevice } from './lists.ts';
import { selectDevices, type DeviceRow } from './devices.ts';
import { deviceMembers, devices } from '../schema/devices.ts';
import { products } from '../schema/products.ts';

const max = 500;

type Candidate = Pick<DeviceRow, 'id' | 'deviceId' | 'searchName' | 'productId' | 'status'>;

const { id, deviceId, deviceSN, searchName, ownerId, productId, status } = devices;
const candidate = { id, deviceId, searchName, productId, status };

const last = String.fromCodePoint(0x10ffff);

/** Sorted by name. `isCut`: there may be more than was looked at. `maySeeSerials`: own devices are found by serial number. */
export async function searchDevices(
  db: Database,
  filter: DeviceFilter & { search: string },
  { page, size }: PageRequest,
  maySeeSerials: boolean,
): Promise<{ total: number; isCut: boolean; rows: ListedDevice[] }> {
  const { userId, role, productKey, statusCode, deviceIds } = filter;
  const text = filter.search.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
  const own = (wanted: SQL | undefined) =>
    db
      .select(candidate)
      .from(devices)
      .where(and(eq(ownerId, userId), wanted));
  const serial = sql`${deviceSN} collate nocase`;
  const startsSerial = sql`${serial} >= ${text} and ${serial} < ${text + last}`;
  const [product, byName, bySerial, byId, operated, viewed] = await db.batch([
    db
      .select({ id: products.id })
      .from(products)
      .where(eq(products.productKey, productKey ?? '')),
    own(and(gte(searchName, text), lt(searchName, text + last)))
      .orderBy(asc(searchName))
      .limit(max),
    own(maySeeSerials ? startsSerial : sql`false`)
      .orderBy(serial)
      .limit(max),
    own(eq(deviceId, text)),
    ...sharedWith(db, userId, text),
  ]);
  const isWanted = (row: Candidate) =>
    (productKey === undefined || row.productId === product[0]?.id) &&
    (!deviceIds || deviceIds.includes(row.deviceId)) &&
    (statusCode === undefined || row.status === statusCode);
  const found = new Map<number, { name: string; role: ListedDevice['role'] }>();
  const byRole = { owner: [...byName, ...bySerial, ...byId], operator: operated, viewer: viewed };
  for (const as of role === undefined ? listRoles : [role]) {
    for (const row of byRole[as].filter(isWanted)) found.set(row.id, { name: row.searchName ?? '', role: as });
  }
  const sorted = [...found].sort(([aId, a], [bId, b]) => (a.name < b.name ? -1 : a.name > b.name ? 1 : aId - bId));
  const shown = new Map(sorted.slice((page - 1) * size, page * size));
  const ids = [...shown.keys()];
  const rows = ids.length === 0 ? [] : await selectDevices(db).where(inArray(id, ids));
  rows.sort((a, b) => ids.indexOf(a.device.id) - ids.indexOf(b.device.id));
  return {
    total: sorted.length,
    isCut: byName.length === max || bySerial.length === max,
    rows: rows.map((row) => ({ ...row, role: shown.get(row.device.id)?.role ?? 'owner' })),
  };
}

function sharedWith(db: Database, userId: number, text: string) {
  const queries = memberRoles.map((role) => {
    const newest = db
      .select({ deviceRow: deviceMembers.deviceRow })
      .from(deviceMembers)
      .where(and(eq(deviceMembers.userId, userId), eq(deviceMembers.role, role)))
      .orderBy(desc(deviceMembers.deviceCreatedAt), desc(deviceMembers.deviceRow))
      .limit(max)
      .as('newest');
    return db
      .select(candidate)
      .from(newest)
      .innerJoin(devices, eq(devices.id, newest.deviceRow))
      .where(sql`substr(${searchName}, 1, length(${text})) = ${text} or ${deviceId} = ${text}`);
  });
  return queries as [(typeof queries)[number], (typeof queries)[number]];
}
