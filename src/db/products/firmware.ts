// Queries on keys, firmware and campaigns of a product. What must not happen together is one statement.
import { and, desc, eq, inArray, isNotNull, notExists, sql } from 'drizzle-orm';
import { imageNameOf, readManifest } from '../../domain/firmware/images.ts';
import type { PageRequest } from '../../domain/pagination.ts';
import { accept, refuse, unwrap, type Outcome } from '../../domain/refusal.ts';
import type { CampaignState } from '../../protocol/vocabulary.ts';
import { findRow, insertSelect, type Database } from '../client.ts';
import { countOf, readPage } from '../pages.ts';
import { campaigns, firmware, firmwareKeys } from '../schema/firmware.ts';
import { products } from '../schema/products.ts';

export type FirmwareRow = typeof firmware.$inferSelect;
type KeyRow = typeof firmwareKeys.$inferSelect;
export type CampaignRow = typeof campaigns.$inferSelect;
type Owned = typeof firmwareKeys | typeof firmware | typeof campaigns;

const ofVersion = (productId: number, version: string) =>
  and(eq(firmware.productId, productId), eq(firmware.version, version));
const isCampaignOpen = inArray(campaigns.state, ['running', 'paused']);

/** False if it is there, or the product has as many already. */
async function insertBelow<Table extends Owned>(
  db: Database,
  table: Table,
  row: Table['$inferSelect'],
  max: number,
  isAllowed = sql`true`,
): Promise<boolean> {
  const rows = sql`(select count(*) as rows from ${table} where product_id = ${row.productId})`;
  const insert = sql`${insertSelect(table, row)} from ${rows} where rows < ${max} and ${isAllowed}`;
  return (await db.run(sql`${insert} on conflict do nothing`)).meta.changes === 1;
}

export const insertKey = (db: Database, row: KeyRow, max: number) => insertBelow(db, firmwareKeys, row, max);
export const insertFirmware = (db: Database, row: FirmwareRow, max: number) => insertBelow(db, firmware, row, max);

/** False also if another one is open, or the image is not stored. */
export function insertCampaign(db: Database, row: CampaignRow, max: number): Promise<boolean> {
  const image = sql`select 1 from ${firmware} where ${ofVersion(row.productId, row.version)} and stored_at is not null`;
  return insertBelow(db, campaigns, row, max, sql`exists (${image})`);
}

export async function deleteKey(db: Database, productId: number, keyId: string): Promise<boolean> {
  const isIt = and(eq(firmwareKeys.productId, productId), eq(firmwareKeys.keyId, keyId));
  return (await db.delete(firmwareKeys).where(isIt)).meta.changes === 1;
}

export function listKeys(db: Database, productId: number): Promise<KeyRow[]> {
  return db.select().from(firmwareKeys).where(eq(firmwareKeys.productId, productId)).orderBy(firmwareKeys.createdAt);
}

export function findFirmware(db: Database, productId: number, version: string): Promise<FirmwareRow | undefined> {
  return findRow(db, firmware, ofVersion(productId, version));
}

export function listFirmware(db: Database, productId: number): Promise<FirmwareRow[]> {
  return db.select().from(firmware).where(eq(firmware.productId, productId)).orderBy(desc(firmware.createdAt));
}

/** With null the image is about to be removed: false if an open campaign needs it. */
export async function setStored(db: Database, productId: number, version: string, storedAt: number | null) {
  const isUsed = and(eq(campaigns.productId, productId), eq(campaigns.version, version), isCampaignOpen);
  const isFree = storedAt === null ? notExists(db.select().from(campaigns).where(isUsed)) : undefined;
  const changed = await db
    .update(firmware)
    .set({ storedAt })
    .where(and(ofVersion(productId, version), isFree));
  return changed.meta.changes === 1;
}

export async function deleteFirmware(db: Database, productId: number, version: string): Promise<void> {
  await db.delete(firmware).where(ofVersion(productId, version));
}

/** Of deleted products. */
export function listLeftFirmware(db: Database, limit: number): Promise<FirmwareRow[]> {
  return db.select().from(firmware).where(isLeft(firmware)).limit(limit);
}

export async function deleteLeftRows(db: Database): Promise<void> {
  for (const table of [firmwareKeys, campaigns]) await db.delete(table).where(isLeft(table));
}

const isLeft = ({ productId }: Owned) =>
  sql`${productId} in (select id from ${products} where ${isNotNull(products.deletedAt)})`;

export async function deleteCampaign(db: Database, campaignId: string): Promise<void> {
  await db.delete(campaigns).where(eq(campaigns.campaignId, campaignId));
}

export async function setCampaignState(db: Database, campaignId: string, state: CampaignState): Promise<void> {
  await db.update(campaigns).set({ state }).where(eq(campaigns.campaignId, campaignId));
}

export function findCampaign(db: Database, productId: number, campaignId: string): Promise<CampaignRow | undefined> {
  return findRow(db, campaigns, and(eq(campaigns.productId, productId), eq(campaigns.campaignId, campaignId)));
}

export async function hasOpenCampaign(db: Database, productId: number): Promise<boolean> {
  return (await findRow(db, campaigns, and(eq(campaigns.productId, productId), isCampaignOpen))) !== undefined;
}

export function listCampaigns(db: Database, productId: number, page: PageRequest) {
  const isOfProduct = eq(campaigns.productId, productId);
  const rows = db.select().from(campaigns).where(isOfProduct).orderBy(desc(campaigns.createdAt)).$dynamic();
  return readPage(db, countOf(db, campaigns, isOfProduct), rows, page);
}

type Image = { name: string; size: number; sha256: string; signedManifest: string };

/** What a device downloads. It is refused if the campaign is paused or stopped, or the image deleted. */
export async function findImage(db: Database, campaignId: string): Promise<Outcome<Image>> {
  const isIt = and(eq(firmware.productId, campaigns.productId), eq(firmware.version, campaigns.version));
  const found = await db
    .select({ state: campaigns.state, firmware })
    .from(campaigns)
    .innerJoin(firmware, isIt)
    .where(and(eq(campaigns.campaignId, campaignId), isNotNull(firmware.storedAt)))
    .get();
  if (found === undefined || found.state === 'stopped') return refuse({ kind: 'update_ended' });
  if (found.state === 'paused') return refuse({ kind: 'campaign_paused' });
  const { productId, version, manifest, signature } = found.firmware;
  const { size, sha256 } = unwrap(readManifest(manifest));
  return accept({ name: imageNameOf(productId, version), size, sha256, signedManifest: `${manifest}\n${signature}\n` });
}
