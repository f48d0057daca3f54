// D1 tables of products, with counters that triggers of the migrations keep, and what is still to be delivered of a change.
// What a changed table needs is said in accounts.ts.
import { isNull } from 'drizzle-orm';
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core';
import { activationPolicies, controlModes, reactivationPolicies } from '../../protocol/vocabulary.ts';
import { userReference } from './accounts.ts';

/** A deleted product keeps its row: its key stays reserved for the user who created it. */
export const products = sqliteTable(
  'products',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    productKey: text('product_key').notNull(),
    ownerId: userReference('owner_id'),
    projectId: text('project_id').notNull(),
    name: text('name').notNull(),
    description: text('description').notNull(),
    category: text('category').notNull(),
    controlMode: text('control_mode', { enum: controlModes }).notNull(),
    uiTemplate: text('ui_template').notNull(),
    iconName: text('icon_name').notNull(),
    iconColor: text('icon_color').notNull(),
    manufacturer: text('manufacturer').notNull(),
    model: text('model').notNull(),
    status: integer('status').$type<0 | 1>().notNull(),
    offlineGraceSeconds: integer('offline_grace_seconds').notNull().default(5),
    activation: text('activation', { enum: activationPolicies }).notNull().default('open'),
    /** Null: open while nobody has claimed the device, then its owner's (domain/device/ownership.ts). */
    reactivation: text('reactivation', { enum: reactivationPolicies }),
    /** Its firmware understands `holdSeconds` of a lease. */
    supportsHold: integer('supports_hold', { mode: 'boolean' }).notNull().default(false),
    createdAt: integer('created_at').notNull(),
    updatedAt: integer('updated_at').notNull(),
    deletedAt: integer('deleted_at'),
  },
  (table) => [
    uniqueIndex('products_key').on(table.productKey),
    index('products_owner').on(table.ownerId, table.createdAt, table.id).where(isNull(table.deletedAt)),
    index('products_owner_category')
      .on(table.ownerId, table.category, table.createdAt, table.id)
      .where(isNull(table.deletedAt)),
  ],
);

export const productReference = () =>
  integer('product_id')
    .notNull()
    .references(() => products.id);

/** How many products a user has, kept by triggers like `device_counts`; `productKeys` are those of deleted products, too. */
export const productCounts = sqliteTable('product_counts', {
  ownerId: integer('owner_id').primaryKey(),
  products: integer('products').notNull().default(0),
  productKeys: integer('product_keys').notNull().default(0),
});

export const productCategoryCounts = sqliteTable(
  'product_category_counts',
  {
    ownerId: integer('owner_id').notNull(),
    category: text('category').notNull(),
    products: integer('products').notNull().default(0),
  },
  (table) => [primaryKey({ columns: [table.ownerId, table.category] })],
);

export const productDeviceCounts = sqliteTable('product_device_counts', {
  productId: integer('product_id').primaryKey(),
  devices: integer('devices').notNull().default(0),
  claimed: integer('claimed').notNull().default(0),
  hour: integer('hour').notNull().default(0),
  newInHour: integer('new_in_hour').notNull().default(0),
  day: integer('day').notNull().default(0),
  activatedInDay: integer('activated_in_day').notNull().default(0),
});

/** What became of days that ended, `day` from 1970: each device adds its own once (`usage_day` of `devices`). */
export const productUsage = sqliteTable(
  'product_usage',
  {
    productId: integer('product_id').notNull(),
    day: integer('day').notNull(),
    devices: integer('devices').notNull(),
    onSeconds: integer('on_seconds').notNull(),
    offSeconds: integer('off_seconds').notNull(),
    unknownSeconds: integer('unknown_seconds').notNull(),
    presses: integer('presses').notNull(),
    failures: integer('failures').notNull(),
  },
  (table) => [primaryKey({ columns: [table.productId, table.day] }), index('product_usage_day').on(table.day)],
);

export const productChanges = sqliteTable('product_changes', {
  productId: productReference().primaryKey(),
  changedAt: integer('changed_at').notNull(),
  cursor: integer('cursor').notNull(),
});
