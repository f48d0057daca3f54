// D1 tables of firmware: keys of makers, signed manifests, campaigns. The images are in R2. What becomes of a campaign is in its object.
import { sql } from 'drizzle-orm';
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core';
import { campaignStates, signatureAlgorithms } from '../../protocol/vocabulary.ts';
import { productReference } from './products.ts';

export const firmwareKeys = sqliteTable(
  'firmware_keys',
  {
    productId: productReference(),
    keyId: text('key_id').notNull(),
    algorithm: text('algorithm', { enum: signatureAlgorithms }).notNull(),
    publicKey: text('public_key').notNull(),
    createdAt: integer('created_at').notNull(),
  },
  (table) => [primaryKey({ columns: [table.productId, table.keyId] })],
);

export const firmware = sqliteTable(
  'firmware',
  {
    productId: productReference(),
    version: text('version').notNull(),
    /** As it was signed. */
    manifest: text('manifest').notNull(),
    signature: text('signature').notNull(),
    keyId: text('key_id').notNull(),
    createdAt: integer('created_at').notNull(),
    /** Its image is in R2. */
    storedAt: integer('stored_at'),
  },
  (table) => [primaryKey({ columns: [table.productId, table.version] })],
);

export const campaigns = sqliteTable(
  'campaigns',
  {
    campaignId: text('campaign_id').primaryKey(),
    productId: productReference(),
    version: text('version').notNull(),
    state: text('state', { enum: campaignStates }).notNull(),
    createdAt: integer('created_at').notNull(),
  },
  (table) => [
    index('campaigns_product').on(table.productId, table.createdAt),
    uniqueIndex('campaigns_open')
      .on(table.productId)
      .where(sql`state in ('running', 'paused')`),
  ],
);
