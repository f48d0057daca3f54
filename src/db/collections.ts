// Queries on groups and scenes. Each names the user, so that another user's is not found.
import { and, eq, sql } from 'drizzle-orm';
import type { PageRequest } from '../domain/pagination.ts';
import { findRow, insertSelect, type Database } from './client.ts';
import { countOf, readPageByIndex } from './pages.ts';
import { collections } from './schema/accounts.ts';

export type CollectionRow = typeof collections.$inferSelect;
type Owned = Pick<CollectionRow, 'userId' | 'kind'>;
type One = Owned & { id: string };

const areOf = ({ userId, kind }: Owned) => and(eq(collections.userId, userId), eq(collections.kind, kind));
const isOne = (one: One) => and(areOf(one), eq(collections.id, one.id));

/** False if the user has as many of the kind as allowed. */
export async function insertCollection(db: Database, row: CollectionRow, max: number): Promise<boolean> {
  const present = countOf(db, collections, areOf(row));
  return (await db.run(sql`${insertSelect(collections, row)} where (${present}) < ${max}`)).meta.changes === 1;
}

export async function listCollections(db: Database, owned: Owned, page: PageRequest) {
  const list = { table: collections, time: collections.createdAt, id: collections.id, where: areOf(owned) };
  return readPageByIndex(
    db,
    countOf(db, collections, list.where),
    db.select().from(collections).$dynamic(),
    list,
    page,
  );
}

export async function findCollection(db: Database, one: One): Promise<CollectionRow | undefined> {
  return findRow(db, collections, isOne(one));
}

export async function updateCollection(db: Database, { name, content, ...one }: CollectionRow): Promise<void> {
  await db.update(collections).set({ name, content }).where(isOne(one));
}

export async function deleteCollection(db: Database, one: One): Promise<boolean> {
  return (await db.delete(collections).where(isOne(one)).returning()).length > 0;
}
