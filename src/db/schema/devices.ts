// D1 tables of device records, of whose they are and who else sees them. Name, disabled and presence of `devices` are a
// projection that only DeviceSession writes. What a changed table needs is said in accounts.ts.
import { isNotNull, isNull, sql } from 'drizzle-orm';
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core';
import { memberRoles } from '../../protocol/vocabulary.ts';
import { tokenColumns, userReference, users } from './accounts.ts';
import { productReference } from './products.ts';

export const devices = sqliteTable(
  'devices',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    deviceId: text('device_id').notNull(),
    productId: productReference(),
    deviceSN: text('device_sn').notNull(),
    /** Part of the projection, with `project_id` and `claimed_at`: who claimed it, else the product's owner. */
    ownerId: userReference('owner_id'),
    projectId: text('project_id').notNull(),
    claimedAt: integer('claimed_at'),
    name: text('name').notNull(),
    /** The name in lower case. Triggers keep it, so that a projection that leaves the name as it is rewrites no index. */
    searchName: text('search_name'),
    firmwareVersion: text('firmware_version').notNull(),
    chipModel: text('chip_model').notNull(),
    isDisabled: integer('is_disabled', { mode: 'boolean' }).notNull().default(false),
    /** The operator disabled it with its owner's account: it is enabled with the account, too. Not part of the projection. */
    isDisabledWithAccount: integer('is_disabled_with_account', { mode: 'boolean' }),
    /** 0 not activated, 1 online, 2 offline. Part of the projection. */
    connectionStatus: integer('connection_status').notNull(),
    /** The code of contract 3, which lists filter by. */
    status: integer('status').generatedAlwaysAs(sql`case when is_disabled then 3 else connection_status end`),
    /** Grows with every change of the projection, so that a late write cannot undo a newer one. */
    projectionVersion: integer('projection_version').notNull().default(0),
    lastOnlineAt: integer('last_online_at'),
    /** When a schedule or a lease is due next. Part of the projection; the minute's job finds lost alarms with it. */
    dueAt: integer('due_at'),
    /** The last day whose usage was added to `product_usage`. Written with the projection. */
    usageDay: integer('usage_day').notNull().default(0),
    membersVersion: integer('members_version').notNull().default(0),
    activatedAt: integer('activated_at'),
    registeredAt: integer('registered_at'),
    /** Of the network that activated it first. Devices that never logged in are bounded by it. */
    activationNetwork: text('activation_network'),
    /** Registered with the serial: without this code nobody claims the device. */
    claimCodeDigest: text('claim_code_digest'),
    /** The owner's; another owner begins with none. Not part of the projection. */
    tags: text('tags', { mode: 'json' }).$type<string[]>().notNull().default([]),
    createdAt: integer('created_at').notNull(),
  },
  (table) => [
    uniqueIndex('devices_device_id').on(table.deviceId),
    uniqueIndex('devices_serial').on(table.productId, table.deviceSN),
    index('devices_product').on(table.productId),
    index('devices_owner').on(table.ownerId, table.createdAt, table.id),
    index('devices_owner_product').on(table.ownerId, table.productId, table.createdAt, table.id),
    index('devices_owner_status').on(table.ownerId, table.status, table.createdAt, table.id),
    index('devices_owner_product_status').on(table.ownerId, table.productId, table.status, table.createdAt, table.id),
    index('devices_owner_name').on(table.ownerId, table.searchName),
    /** Of devices that are removed after a while. */
    index('devices_never_online')
      .on(table.activatedAt)
      .where(
        sql`${table.lastOnlineAt} is null and ${table.activatedAt} is not null
          and ${table.claimedAt} is null and ${table.registeredAt} is null`,
      ),
    index('devices_never_online_network')
      .on(table.activationNetwork, table.activatedAt)
      .where(sql`${table.lastOnlineAt} is null and ${table.activationNetwork} is not null`),
    index('device_due').on(table.dueAt).where(isNotNull(table.dueAt)),
    index('devices_owner_tagged')
      .on(table.ownerId, table.createdAt, table.id)
      .where(sql`${table.tags} <> '[]'`),
    index('devices_owner_serial').on(table.ownerId, sql`${table.deviceSN} collate nocase`),
  ],
);

/** Who shares a device: a copy for lists. The device's object decides; triggers keep `status`. */
export const deviceMembers = sqliteTable(
  'device_members',
  {
    deviceRow: integer('device_row')
      .notNull()
      .references(() => devices.id, { onDelete: 'cascade' }),
    userId: userReference('user_id'),
    role: text('role', { enum: memberRoles }).notNull(),
    since: integer('since').notNull(),
    productId: integer('product_id').notNull(),
    status: integer('status').notNull(),
    deviceCreatedAt: integer('device_created_at').notNull(),
  },
  ({ deviceRow, userId, role, productId, status, deviceCreatedAt }) => [
    primaryKey({ columns: [deviceRow, userId] }),
    index('device_members_user').on(userId, role, deviceCreatedAt, deviceRow),
    index('device_members_product').on(userId, role, productId, deviceCreatedAt, deviceRow),
    index('device_members_status').on(userId, role, status, deviceCreatedAt, deviceRow),
    index('device_members_product_status').on(userId, role, productId, status, deviceCreatedAt, deviceRow),
  ],
);

const statusCounts = () => ({
  devices: integer('devices').notNull().default(0),
  inactive: integer('inactive').notNull().default(0),
  online: integer('online').notNull().default(0),
  disabled: integer('disabled').notNull().default(0),
});

export const memberCounts = sqliteTable(
  'member_counts',
  {
    userId: integer('user_id').notNull(),
    role: text('role', { enum: memberRoles }).notNull(),
    productId: integer('product_id').notNull(),
    ...statusCounts(),
  },
  (table) => [primaryKey({ columns: [table.userId, table.role, table.productId] })],
);

export const deviceInvitations = sqliteTable(
  'device_invitations',
  {
    id: text('id').primaryKey(),
    deviceRow: integer('device_row')
      .notNull()
      .references(() => devices.id, { onDelete: 'cascade' }),
    email: text('email').notNull(),
    foldedEmail: text('folded_email').notNull(),
    role: text('role', { enum: memberRoles }).notNull(),
    invitedBy: userReference('invited_by'),
    /** The API key that made it and with which it ends; null: its user in person. */
    madeByKey: text('made_by_key'),
    createdAt: integer('created_at').notNull(),
    expiresAt: integer('expires_at').notNull(),
  },
  (table) => [
    uniqueIndex('device_invitations_device').on(table.deviceRow, table.foldedEmail),
    index('device_invitations_email').on(table.foldedEmail, table.createdAt, table.id, table.expiresAt),
    index('device_invitations_email_expiry').on(table.foldedEmail, table.expiresAt),
    index('device_invitations_expiry').on(table.expiresAt),
    index('device_invitations_sender').on(table.invitedBy, table.expiresAt),
    index('device_invitations_key').on(table.madeByKey).where(isNotNull(table.madeByKey)),
  ],
);

/** Lengths of lists that may grow long, kept by triggers. Expired rows count until they are deleted. */
export const listCounts = sqliteTable(
  'list_counts',
  {
    list: text('list', { enum: ['api_keys', 'invitations', 'transfers', 'users'] }).notNull(),
    subject: text('subject').notNull(),
    entries: integer('entries').notNull().default(0),
  },
  (table) => [primaryKey({ columns: [table.list, table.subject] })],
);

/** How many devices a product has with one owner, kept by triggers. Offline: what no other column counts. */
export const deviceCounts = sqliteTable(
  'device_counts',
  {
    productId: integer('product_id').notNull(),
    ownerId: integer('owner_id').notNull(),
    ...statusCounts(),
  },
  (table) => [
    primaryKey({ columns: [table.productId, table.ownerId] }),
    index('device_counts_owner').on(table.ownerId),
  ],
);

export const claimTokens = sqliteTable(
  'claim_tokens',
  {
    ...tokenColumns(),
    /** `<product id> <serial>`: it works again for that one alone; null before its first use. */
    usedBy: text('used_by'),
    /** Claims devices of this product alone, as the API key that made it. */
    productKey: text('product_key'),
    madeByKey: text('made_by_key'),
    /** `<product id> <serial>`: claims this device alone. */
    boundTo: text('bound_to'),
    /** Its maker has shown the claim code of `boundTo`. */
    hasShownCode: integer('has_shown_code', { mode: 'boolean' }),
  },
  (table) => [
    index('claim_tokens_key').on(table.madeByKey).where(isNotNull(table.madeByKey)),
    index('claim_tokens_user').on(table.userId, table.expiresAt),
    index('claim_tokens_expiry').on(table.expiresAt),
  ],
);

export const deviceTransfers = sqliteTable(
  'device_transfers',
  {
    deviceId: text('device_id').primaryKey(),
    offerId: text('offer_id').notNull(),
    fromUserId: userReference('from_user_id'),
    toUserId: integer('to_user_id').references(() => users.id),
    offeredAt: integer('offered_at').notNull(),
    expiresAt: integer('expires_at').notNull(),
  },
  (table) => [
    index('device_transfers_from').on(table.fromUserId, table.expiresAt),
    index('device_transfers_to').on(table.toUserId, table.offeredAt, table.deviceId, table.expiresAt),
    index('device_transfers_to_expiry').on(table.toUserId, table.expiresAt),
    index('device_transfers_expiry').on(table.expiresAt),
  ],
);

/** Outbox for brokers without a login hook: the latest credential state per device. The password is sealed. */
export const brokerOutbox = sqliteTable(
  'broker_outbox',
  {
    deviceId: text('device_id').primaryKey(),
    productKey: text('product_key').notNull(),
    /** Grows with every operation, so that delivering one is never recorded as delivering a newer one. */
    version: integer('version').notNull(),
    operation: text('operation', { enum: ['upsert', 'disable', 'delete'] }).notNull(),
    sealedPassword: text('sealed_password'),
    /** Open sessions are ended on delivery, as after a changed credential. */
    endsSessions: integer('ends_sessions', { mode: 'boolean' }).notNull(),
    /** When the request that asked for it began. Of two requests that cross, the later one wins. */
    requestedAt: integer('requested_at').notNull(),
    attempts: integer('attempts').notNull(),
    nextAttemptAt: integer('next_attempt_at').notNull(),
    claimedUntil: integer('claimed_until').notNull(),
    deliveredAt: integer('delivered_at'),
  },
  (table) => [
    index('broker_outbox_due').on(table.nextAttemptAt).where(isNull(table.deliveredAt)),
    index('broker_outbox_delivered').on(table.deliveredAt).where(isNotNull(table.deliveredAt)),
  ],
);
