// Lists of a user's own and shared devices, newest first, and what a search finds of them. A list costs what its page costs and, up to a
// limit, what stands before it, however many devices there are: counters give the total (`device_counts`, `member_counts`), an index on
// each filter the rows. A search reads from each index as many rows as the limit says, and what else is asked for is looked for among them.
import { and, count, desc, eq, gte, lt, sql, type SQL, type SQLWrapper, asc, inArray } from 'drizzle-orm';
import { unionAll } from 'drizzle-orm/sqlite-core';
import type { DeviceStatusCode } from '../../domain/device-status.ts';
import { offsetOf, type ListPosition, type PageRequest } from '../../domain/pagination.ts';
import { memberRoles } from '../../protocol/vocabulary.ts';
import type { Database } from '../client.ts';
import { selectDevices, type DeviceWithProduct, type DeviceRow } from './devices.ts';
import { deviceCounts, deviceMembers, devices, memberCounts } from '../schema/devices.ts';
import { products } from '../schema/products.ts';

const listRoles = ['owner', ...memberRoles] as const;
type ListRole = (typeof listRoles)[number];

export type DeviceFilter = {
  userId: number;
  role?: ListRole | undefined;
  productKey?: string | undefined;
  statusCode?: DeviceStatusCode | undefined;
  tag?: string | undefined;
  /** Only these. */
  deviceIds?: readonly string[] | null | undefined;
};

type ListedDevice = DeviceWithProduct & { role: ListRole };

export async function listDevices(
  db: Database,
  filter: DeviceFilter,
  page: PageRequest,
  after: ListPosition | 'begin' | undefined,
): Promise<{ total: number; rows: ListedDevice[] }> {
  const parts = rolesOf(filter).map((role) => {
    const { table, createdAt, id } = columnsOf(role);
    const isBehind =
      typeof after === 'object' ? sql`(${createdAt}, ${id}) < (${after.createdAt}, ${after.id})` : undefined;
    const where = and(wantedBy(db, filter, role), isBehind);
    return sql`select ${createdAt} as created_at, ${id} as id, ${role} as role from ${table} where ${where}`;
  });
  const offset = after === undefined ? offsetOf(page) : 0;
  // By the indices alone: rows before the page are neither read nor joined.
  const listed = sql`(${sql.join(parts, sql` union all `)}
    order by created_at desc, id desc limit ${page.size} offset ${offset}) as listed`;
  const [counted, rows] = await db.batch([
    totalOf(db, filter),
    selectDevices(db, { role: sql<ListRole>`listed.role`.as('listed_role') }).innerJoin(
      listed,
      sql`listed.id = ${devices.id}`,
    ),
  ]);
  rows.sort((a, b) => b.device.createdAt - a.device.createdAt || b.device.id - a.device.id);
  return { total: sumOf(counted), rows };
}

const rolesOf = ({ role }: DeviceFilter) => (role === undefined ? listRoles : [role]);

export type ProductDevicesFilter = {
  productId: number;
  ownerId: number;
  status?: DeviceStatusCode | undefined;
  createdAfter?: number | undefined;
  createdBefore?: number | undefined;
};

export async function listDevicesOf(db: Database, filter: ProductDevicesFilter, limit: number) {
  const { id, deviceId, createdAt } = devices;
  const matching = db.select({ id, deviceId }).from(devices).where(isOf(filter));
  return matching.orderBy(desc(createdAt), desc(id)).limit(limit);
}

export async function countDevicesOf(db: Database, filter: ProductDevicesFilter, max: number): Promise<number> {
  const some = db.select({ id: devices.id }).from(devices).where(isOf(filter)).limit(max);
  const [counted] = await db.select({ total: count() }).from(some.as('some'));
  return counted?.total ?? 0;
}

export async function countDevices(db: Database, filter: DeviceFilter): Promise<number> {
  return sumOf(await totalOf(db, filter));
}

function columnsOf(role: ListRole) {
  if (role === 'owner') {
    const { ownerId: userId, productId, status, createdAt, id } = devices;
    return { table: devices, mine: [], userId, productId, status, createdAt, id };
  }
  const { userId, productId, status, deviceCreatedAt: createdAt, deviceRow: id } = deviceMembers;
  return { table: deviceMembers, mine: [eq(deviceMembers.role, role)], userId, productId, status, createdAt, id };
}

function wantedBy(db: Database, filter: DeviceFilter, role: ListRole): SQL | undefined {
  const { mine, userId, productId, status, id } = columnsOf(role);
  const { productKey, statusCode, tag, deviceIds } = filter;
  const isTagged = sql`exists (
    select 1 from ${devices} as tagged, json_each(tagged.tags) where tagged.id = ${id} and value = ${tag})`;
  return and(
    eq(userId, filter.userId),
    ...mine,
    productKey === undefined ? undefined : eq(productId, productIdOf(db, productKey)),
    statusCode === undefined ? undefined : eq(status, statusCode),
    tag === undefined ? undefined : isTagged,
    !deviceIds
      ? undefined
      : sql`${id} in (select id from ${devices} where device_id in (select value from json_each(${JSON.stringify(deviceIds)})))`,
    // For the index.
    tag === undefined || role !== 'owner' ? undefined : sql`${devices.tags} <> '[]'`,
  );
}

const offlineOf = ({ devices: all, inactive, online, disabled }: typeof deviceCounts | typeof memberCounts) =>
  sql`${all} - ${inactive} - ${online} - ${disabled}`;

function totalOf(db: Database, filter: DeviceFilter) {
  const { userId, role, productKey, statusCode, tag, deviceIds } = filter;
  const countRows = (as: ListRole) => {
    const isAsked = role === undefined || role === as ? undefined : sql`false`;
    const rows = db.select({ total: sql<number>`count(*)`.as('total') }).from(columnsOf(as).table);
    return rows.where(and(isAsked, wantedBy(db, filter, as)));
  };
  // The counters know neither.
  if (tag !== undefined || deviceIds) return unionAll(countRows('owner'), countRows('operator'), countRows('viewer'));
  const sumFrom = (table: typeof deviceCounts | typeof memberCounts, isCounted: SQL | undefined) => {
    const byStatus = [table.inactive, table.online, offlineOf(table), table.disabled];
    const counted = statusCode === undefined ? table.devices : byStatus[statusCode];
    return db
      .select({ total: sql<number>`coalesce(sum(${counted}), 0)`.as('total') })
      .from(table)
      .where(and(isCounted, productKey === undefined ? undefined : eq(table.productId, productIdOf(db, productKey))));
  };
  const ofRole = role === undefined ? undefined : role === 'owner' ? sql`false` : eq(memberCounts.role, role);
  const asOwner = rolesOf(filter).includes('owner') ? undefined : sql`false`;
  return unionAll(
    sumFrom(deviceCounts, and(eq(deviceCounts.ownerId, userId), asOwner)),
    sumFrom(memberCounts, and(eq(memberCounts.userId, userId), ofRole)),
  );
}

function sumOf(parts: readonly { total: number }[]): number {
  return parts.reduce((sum, { total }) => sum + total, 0);
}

function productIdOf(db: Database, productKey: string) {
  return db.select({ id: products.id }).from(products).where(eq(products.productKey, productKey));
}

function isOf({ productId, ownerId, status, createdAfter, createdBefore }: ProductDevicesFilter) {
  return and(
    eq(devices.ownerId, ownerId),
    eq(devices.productId, productId),
    status === undefined ? undefined : eq(devices.status, status),
    createdAfter === undefined ? undefined : gte(devices.createdAt, createdAfter),
    createdBefore === undefined ? undefined : lt(devices.createdAt, createdBefore),
  );
}

export async function countByStatus(db: Database) {
  const of = (count: SQLWrapper) => sql<number>`coalesce(sum(${count}), 0)`;
  const { inactive, online, disabled } = deviceCounts;
  const sums = {
    inactive: of(inactive),
    online: of(online),
    offline: of(offlineOf(deviceCounts)),
    disabled: of(disabled),
  };
  return (await db.select(sums).from(deviceCounts).get()) ?? { inactive: 0, online: 0, offline: 0, disabled: 0 };
}

type Candidate = Pick<DeviceRow, 'id' | 'deviceId' | 'searchName' | 'productId' | 'status'>;

/** Rows that a search reads from each index. */
const maxRead = 500;

/** Sorted by name. `isCut`: there may be more than was looked at. `maySeeSerials`: own devices are found by serial number. */
export async function searchDevices(
  db: Database,
  filter: DeviceFilter & { search: string },
  { page, size }: PageRequest,
  maySeeSerials: boolean,
): Promise<{ total: number; isCut: boolean; rows: ListedDevice[] }> {
  const { userId, role, productKey, statusCode, deviceIds } = filter;
  const { id, deviceId, deviceSN, searchName, ownerId, productId, status } = devices;
  const candidate = { id, deviceId, searchName, productId, status };
  const last = String.fromCodePoint(0x10ffff);
  const text = filter.search.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
  const own = (wanted: SQL | undefined) =>
    db
      .select(candidate)
      .from(devices)
      .where(and(eq(ownerId, userId), wanted));
  const shared = memberRoles.map((as) => {
    const newest = db
      .select({ deviceRow: deviceMembers.deviceRow })
      .from(deviceMembers)
      .where(and(eq(deviceMembers.userId, userId), eq(deviceMembers.role, as)))
      .orderBy(desc(deviceMembers.deviceCreatedAt), desc(deviceMembers.deviceRow))
      .limit(maxRead)
      .as('newest');
    return db
      .select(candidate)
      .from(newest)
      .innerJoin(devices, eq(id, newest.deviceRow))
      .where(sql`substr(${searchName}, 1, length(${text})) = ${text} or ${deviceId} = ${text}`);
  });
  const serial = sql`${deviceSN} collate nocase`;
  const startsSerial = sql`${serial} >= ${text} and ${serial} < ${text + last}`;
  const [product, byName, bySerial, byId, operated, viewed] = await db.batch([
    db
      .select({ id: products.id })
      .from(products)
      .where(eq(products.productKey, productKey ?? '')),
    own(and(gte(searchName, text), lt(searchName, text + last)))
      .orderBy(asc(searchName))
      .limit(maxRead),
    own(maySeeSerials ? startsSerial : sql`false`)
      .orderBy(serial)
      .limit(maxRead),
    own(eq(deviceId, text)),
    ...(shared as [(typeof shared)[number], (typeof shared)[number]]),
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
    isCut: byName.length === maxRead || bySerial.length === maxRead,
    rows: rows.map((row) => ({ ...row, role: shown.get(row.device.id)?.role ?? 'owner' })),
  };
}
