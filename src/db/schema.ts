// D1 tables. Name, disabled and presence of `devices` are a projection that only DeviceSession writes. Times are integer
// milliseconds since the epoch. A changed table needs a migration (`npm run db:generate`), under which the code of one
// version before still writes: a new column is nullable or has a default, and no statement relies on column order.
import { sql } from 'drizzle-orm';
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core';
import type { Scope } from '../domain/access.ts';
import type { Rotation } from '../domain/token-rotation.ts';
import { activationPolicies, controlModes, memberRoles, reactivationPolicies } from '../protocol/vocabulary.ts';

/** Names are unique by their folded form, computed in domain/account-name.ts: SQLite's lower() handles ASCII only. */
export const users = sqliteTable(
  'users',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    username: text('username').notNull(),
    email: text('email').notNull(),
    foldedUsername: text('folded_username').notNull(),
    foldedEmail: text('folded_email').notNull(),
    passwordHash: text('password_hash').notNull(),
    projectId: text('project_id').notNull(),
    createdAt: integer('created_at').notNull(),
    /** Set by the operator: no login, no session, no API key. */
    disabledAt: integer('disabled_at'),
  },
  (table) => [
    uniqueIndex('users_folded_username').on(table.foldedUsername),
    uniqueIndex('users_folded_email').on(table.foldedEmail),
  ],
);

const userReference = (column: string) =>
  integer(column)
    .notNull()
    .references(() => users.id);

/** What the operator has changed while the service runs; a name without a row has its default. */
export const serviceSettings = sqliteTable('service_settings', {
  name: text('name', { enum: ['sign_up'] }).primaryKey(),
  value: text('value').notNull(),
});

/** Tokens with which a password may be set anew, once; of each only the digest. */
export const passwordResets = sqliteTable(
  'password_resets',
  {
    hash: text('hash').primaryKey(),
    userId: userReference('user_id'),
    createdAt: integer('created_at').notNull(),
    expiresAt: integer('expires_at').notNull(),
  },
  (table) => [
    index('password_resets_user').on(table.userId, table.createdAt),
    index('password_resets_expiry').on(table.expiresAt),
  ],
);

/** Limits of src/limits.ts that count for one user in place of the service's own. Written by the operator alone. */
export const userLimits = sqliteTable(
  'user_limits',
  { userId: userReference('user_id'), name: text('name').notNull(), value: integer('value').notNull() },
  (table) => [primaryKey({ columns: [table.userId, table.name] })],
);

/** One row per session, that is for all refresh tokens that descend from one login. `hash` is of the current token. */
export const refreshTokens = sqliteTable(
  'refresh_tokens',
  {
    hash: text('hash').primaryKey(),
    family: text('family').notNull(),
    userId: userReference('user_id'),
    createdAt: integer('created_at').notNull(),
    /** Thirty days after the last use: the smallest is the session that was not used for longest. */
    expiresAt: integer('expires_at').notNull(),
    rotatedAt: integer('rotated_at'),
    /** The last exchanges of its token (domain/token-rotation.ts); null before the first. */
    rotations: text('rotations', { mode: 'json' }).$type<Rotation[]>(),
    /** Of the login or the last exchange, as its client told them; null in sessions of the version before. */
    clientAddress: text('client_address'),
    userAgent: text('user_agent'),
  },
  (table) => [
    index('refresh_tokens_family').on(table.family),
    index('refresh_tokens_user').on(table.userId, table.expiresAt),
    index('refresh_tokens_expiry').on(table.expiresAt),
  ],
);

/**
 * Failed logins, one row per throttle key (domain/login-throttle.ts). Keys are digests, so that the table holds no names and no
 * addresses.
 */
export const loginAttempts = sqliteTable(
  'login_attempts',
  {
    throttleKey: text('throttle_key').primaryKey(),
    failures: integer('failures').notNull(),
    /** To the version before, which has other keys, it is the end of a wait. */
    lastFailedAt: integer('retry_at').notNull(),
    /** For the version before alone: 0. */
    isTrusted: integer('is_trusted', { mode: 'boolean' }).notNull(),
    expiresAt: integer('expires_at').notNull(),
  },
  (table) => [index('login_attempts_expiry').on(table.expiresAt)],
);

/** Devices on which a user has logged in. Their tokens open nothing: they only keep the failures of strangers apart. */
export const loginDevices = sqliteTable(
  'login_devices',
  {
    hash: text('hash').primaryKey(),
    userId: userReference('user_id'),
    createdAt: integer('created_at').notNull(),
    /** The last login that showed it again; null before the first. */
    shownAt: integer('shown_at'),
    expiresAt: integer('expires_at').notNull(),
  },
  (table) => [
    index('login_devices_user').on(table.userId, table.shownAt, table.createdAt),
    index('login_devices_expiry').on(table.expiresAt),
  ],
);

export const apiKeys = sqliteTable(
  'api_keys',
  {
    keyId: text('key_id').primaryKey(),
    userId: userReference('user_id'),
    secretHash: text('secret_hash').notNull(),
    description: text('description').notNull(),
    /** Of domain/access.ts; null: all, also in keys of the version before. */
    scopes: text('scopes', { mode: 'json' }).$type<Scope[]>(),
    /** The one product that the key is for; null: all. */
    productKey: text('product_key'),
    createdAt: integer('created_at').notNull(),
    lastUsedAt: integer('last_used_at'),
  },
  (table) => [index('api_keys_user').on(table.userId, table.createdAt, table.keyId)],
);

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
    createdAt: integer('created_at').notNull(),
    updatedAt: integer('updated_at').notNull(),
    deletedAt: integer('deleted_at'),
  },
  (table) => [
    uniqueIndex('products_key').on(table.productKey),
    index('products_owner')
      .on(table.ownerId, table.createdAt, table.id)
      .where(sql`${table.deletedAt} is null`),
    index('products_owner_category')
      .on(table.ownerId, table.category, table.createdAt, table.id)
      .where(sql`${table.deletedAt} is null`),
  ],
);

/** How many products a user has, kept by triggers like `device_counts`; `productKeys` are those of deleted products, too. */
export const productCounts = sqliteTable('product_counts', {
  ownerId: integer('owner_id').primaryKey(),
  products: integer('products').notNull().default(0),
  productKeys: integer('product_keys').notNull().default(0),
});

/** How many products a user has in a category, kept like `product_counts`. */
export const productCategoryCounts = sqliteTable(
  'product_category_counts',
  {
    ownerId: integer('owner_id').notNull(),
    category: text('category').notNull(),
    products: integer('products').notNull().default(0),
  },
  (table) => [primaryKey({ columns: [table.ownerId, table.category] })],
);

/** Product changes that are not yet delivered to the sessions of all the product's devices. */
export const productChanges = sqliteTable('product_changes', {
  productId: integer('product_id')
    .primaryKey()
    .references(() => products.id),
  changedAt: integer('changed_at').notNull(),
  /** `devices.id` up to which the change is delivered. */
  cursor: integer('cursor').notNull(),
});

/** The newest comparison of all device records with their sessions: one row, whose `id` is 1. */
export const reconciliation = sqliteTable('reconciliation', {
  id: integer('id').primaryKey(),
  startedAt: integer('started_at').notNull(),
  finishedAt: integer('finished_at'),
  /** `devices.id` up to which records are compared. */
  cursor: integer('cursor').notNull().default(0),
  checked: integer('checked').notNull().default(0),
  /** Records without a session: the device has to activate again. */
  inactive: integer('inactive').notNull().default(0),
  /** Records whose device was deleted. */
  deleted: integer('deleted').notNull().default(0),
  /** Devices whose session could not be asked. */
  failed: integer('failed').notNull().default(0),
});

/**
 * Outbox for brokers without a login hook: one row per device, holding the latest credential state to push. The password
 * is sealed (crypto/sealed-text.ts) and erased on delivery.
 */
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
    /** A delivery holds the entry until then. */
    claimedUntil: integer('claimed_until').notNull(),
    deliveredAt: integer('delivered_at'),
  },
  (table) => [
    index('broker_outbox_due')
      .on(table.nextAttemptAt)
      .where(sql`${table.deliveredAt} is null`),
    index('broker_outbox_delivered')
      .on(table.deliveredAt)
      .where(sql`${table.deliveredAt} is not null`),
  ],
);

export const devices = sqliteTable(
  'devices',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    deviceId: text('device_id').notNull(),
    productId: integer('product_id')
      .notNull()
      .references(() => products.id),
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
    /** Number of the change of `device_members` that came last. */
    membersVersion: integer('members_version').notNull().default(0),
    /** Null for a serial that was registered and has not activated. */
    activatedAt: integer('activated_at'),
    registeredAt: integer('registered_at'),
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
    index('devices_owner_serial').on(table.ownerId, sql`${table.deviceSN} collate nocase`),
  ],
);

/**
 * With whom a device is shared: the copy of what its object decided, for lists. Product, status and creation are those of
 * the device; triggers of the migration keep the status.
 */
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
  (table) => [
    primaryKey({ columns: [table.deviceRow, table.userId] }),
    index('device_members_user').on(table.userId, table.role, table.deviceCreatedAt, table.deviceRow),
    index('device_members_product').on(
      table.userId,
      table.role,
      table.productId,
      table.deviceCreatedAt,
      table.deviceRow,
    ),
    index('device_members_status').on(table.userId, table.role, table.status, table.deviceCreatedAt, table.deviceRow),
    index('device_members_product_status').on(
      table.userId,
      table.role,
      table.productId,
      table.status,
      table.deviceCreatedAt,
      table.deviceRow,
    ),
  ],
);

/** How many devices of a product are shared with a user, kept by triggers like `device_counts`. */
export const memberCounts = sqliteTable(
  'member_counts',
  {
    userId: integer('user_id').notNull(),
    role: text('role', { enum: memberRoles }).notNull(),
    productId: integer('product_id').notNull(),
    devices: integer('devices').notNull().default(0),
    inactive: integer('inactive').notNull().default(0),
    online: integer('online').notNull().default(0),
    disabled: integer('disabled').notNull().default(0),
  },
  (table) => [primaryKey({ columns: [table.userId, table.role, table.productId] })],
);

/** Open ones. By email, so that nobody learns whether it has an account. */
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
    createdAt: integer('created_at').notNull(),
    expiresAt: integer('expires_at').notNull(),
  },
  (table) => [
    uniqueIndex('device_invitations_device').on(table.deviceRow, table.foldedEmail),
    index('device_invitations_email').on(table.foldedEmail, table.createdAt, table.id, table.expiresAt),
    index('device_invitations_email_expiry').on(table.foldedEmail, table.expiresAt),
    index('device_invitations_expiry').on(table.expiresAt),
  ],
);

/**
 * How long lists are that grow with what others do, or with a limit that an operator may lift. Triggers keep it with the rows
 * of its lists; rows that have expired count until they are deleted. `subject` is a user id, an email, or a state.
 */
export const listCounts = sqliteTable(
  'list_counts',
  {
    list: text('list', { enum: ['api_keys', 'invitations', 'transfers', 'users'] }).notNull(),
    subject: text('subject').notNull(),
    entries: integer('entries').notNull().default(0),
  },
  (table) => [primaryKey({ columns: [table.list, table.subject] })],
);

/**
 * How many devices a product has with one owner. Triggers keep it with the rows of `devices`, whose product never changes.
 * Offline are those that no other column counts.
 */
export const deviceCounts = sqliteTable(
  'device_counts',
  {
    productId: integer('product_id').notNull(),
    ownerId: integer('owner_id').notNull(),
    devices: integer('devices').notNull().default(0),
    inactive: integer('inactive').notNull().default(0),
    online: integer('online').notNull().default(0),
    disabled: integer('disabled').notNull().default(0),
    /** The hour of the newest record since the epoch, and the records made in it. */
    hour: integer('hour').notNull().default(0),
    newInHour: integer('new_in_hour').notNull().default(0),
  },
  (table) => [
    primaryKey({ columns: [table.productId, table.ownerId] }),
    index('device_counts_owner').on(table.ownerId),
  ],
);

/** How many devices a product has, whoever owns them. Kept by triggers like `device_counts`. */
export const productDeviceCounts = sqliteTable('product_device_counts', {
  productId: integer('product_id').primaryKey(),
  devices: integer('devices').notNull().default(0),
  claimed: integer('claimed').notNull().default(0),
  /** The hour of the newest record that an activation made, and those made in it. */
  hour: integer('hour').notNull().default(0),
  newInHour: integer('new_in_hour').notNull().default(0),
  /** The day of the newest first activation, and those of that day. */
  day: integer('day').notNull().default(0),
  activatedInDay: integer('activated_in_day').notNull().default(0),
});

/** What makes its user the owner of the device that activates with it. Only the digest is stored. */
export const claimTokens = sqliteTable(
  'claim_tokens',
  {
    hash: text('hash').primaryKey(),
    userId: userReference('user_id'),
    createdAt: integer('created_at').notNull(),
    expiresAt: integer('expires_at').notNull(),
    /** `<product id> <serial>`: it works again for that one alone; null before its first use. */
    usedBy: text('used_by'),
  },
  (table) => [
    index('claim_tokens_user').on(table.userId, table.expiresAt),
    index('claim_tokens_expiry').on(table.expiresAt),
  ],
);

/** Offers of devices, for the list of whom they are made to. The device's session decides about each. */
export const deviceTransfers = sqliteTable(
  'device_transfers',
  {
    deviceId: text('device_id').primaryKey(),
    offerId: text('offer_id').notNull(),
    fromUserId: userReference('from_user_id'),
    /** Null where nobody has the e-mail. */
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
