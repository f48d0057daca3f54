// D1 tables of users and of how they sign in. Times are integer milliseconds since the epoch. A changed table needs a migration
// (`npm run db:generate`), under which the code of one version before still writes: a new column is nullable or has a default,
// and no statement relies on column order.
import { isNotNull } from 'drizzle-orm';
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core';
import type { Scope } from '../../domain/access.ts';
import type { Rotation } from '../../domain/token-rotation.ts';
import type { GroupContent, SceneContent } from '../../protocol/http/collections.ts';
import type { SecurityEventKind } from '../../protocol/vocabulary.ts';

/** Names are unique by their folded form, which domain/names.ts makes: SQLite's lower() handles ASCII only. */
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
    disabledAt: integer('disabled_at'),
    emailVerifiedAt: integer('email_verified_at'),
  },
  (table) => [
    uniqueIndex('users_folded_username').on(table.foldedUsername),
    uniqueIndex('users_folded_email').on(table.foldedEmail),
    // Access tokens of an account end with it: each isolate asks who was disabled lately.
    index('users_disabled').on(table.disabledAt).where(isNotNull(table.disabledAt)),
  ],
);

export const userReference = (column: string) =>
  integer(column)
    .notNull()
    .references(() => users.id);

/** Also what scheduled jobs and metrics remember from one run to the next. */
export const serviceSettings = sqliteTable('service_settings', {
  name: text('name', { enum: ['sign_up', 'unused_devices_after', 'jobs_done', 'gone_offline'] }).primaryKey(),
  value: text('value').notNull(),
});

/** Of a token only the digest is stored. */
export const tokenColumns = () => ({
  hash: text('hash').primaryKey(),
  userId: userReference('user_id'),
  createdAt: integer('created_at').notNull(),
  expiresAt: integer('expires_at').notNull(),
});

const mailedTokens = (name: string) =>
  sqliteTable(name, tokenColumns(), (table) => [
    index(`${name}_user`).on(table.userId, table.createdAt),
    index(`${name}_expiry`).on(table.expiresAt),
  ]);

export const passwordResets = mailedTokens('password_resets');

/** Links that were mailed to prove an e-mail address. */
export const emailVerifications = mailedTokens('email_verifications');

/** Senders whose invitations and offers a user does not want. */
export const blockedSenders = sqliteTable(
  'blocked_senders',
  { userId: userReference('user_id'), senderId: userReference('sender_id') },
  (table) => [primaryKey({ columns: [table.userId, table.senderId] })],
);

/** What concerns the safety of an account, for its user. Kept for 90 days. */
export const securityEvents = sqliteTable(
  'security_events',
  {
    id: integer('id').primaryKey({ autoIncrement: true }),
    userId: userReference('user_id'),
    kind: text('kind').$type<SecurityEventKind>().notNull(),
    clientAddress: text('client_address'),
    detail: text('detail', { mode: 'json' }).$type<Record<string, string | number>>(),
    createdAt: integer('created_at').notNull(),
  },
  (table) => [
    index('security_events_user').on(table.userId, table.createdAt),
    index('security_events_age').on(table.createdAt),
  ],
);

export const userLimits = sqliteTable(
  'user_limits',
  { userId: userReference('user_id'), name: text('name').notNull(), value: integer('value').notNull() },
  (table) => [primaryKey({ columns: [table.userId, table.name] })],
);

/** One row per session, that is for all refresh tokens that descend from one login. `hash` is of the current token. */
export const refreshTokens = sqliteTable(
  'refresh_tokens',
  {
    /** Its `expiresAt` is thirty days after the last use: the smallest is the session that was not used for longest. */
    ...tokenColumns(),
    family: text('family').notNull(),
    /** In access tokens and lists: a digest of `family`, which alone ends nothing. */
    sessionId: text('session_id'),
    /** When its user last showed the password, other than at the login. */
    confirmedAt: integer('confirmed_at'),
    rotatedAt: integer('rotated_at'),
    rotations: text('rotations', { mode: 'json' }).$type<Rotation[]>(),
    clientAddress: text('client_address').notNull(),
    userAgent: text('user_agent').notNull(),
  },
  (table) => [
    index('refresh_tokens_family').on(table.family),
    uniqueIndex('refresh_tokens_session').on(table.sessionId),
    index('refresh_tokens_user').on(table.userId, table.expiresAt),
    index('refresh_tokens_expiry').on(table.expiresAt),
  ],
);

/** Failed logins, one row per throttle key. Keys are digests: the table holds no names and no addresses. */
export const loginAttempts = sqliteTable(
  'login_attempts',
  {
    throttleKey: text('throttle_key').primaryKey(),
    failures: integer('failures').notNull(),
    lastFailedAt: integer('last_failed_at').notNull(),
    expiresAt: integer('expires_at').notNull(),
  },
  (table) => [index('login_attempts_expiry').on(table.expiresAt)],
);

/** Devices on which a user has logged in. Their tokens open nothing: they only keep the failures of strangers apart. */
export const loginDevices = sqliteTable(
  'login_devices',
  { ...tokenColumns(), shownAt: integer('shown_at') },
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
    scopes: text('scopes', { mode: 'json' }).$type<Scope[]>().notNull(),
    productKey: text('product_key'),
    /** The devices for which alone it is; null: for all. */
    deviceIds: text('device_ids', { mode: 'json' }).$type<string[]>(),
    createdAt: integer('created_at').notNull(),
    lastUsedAt: integer('last_used_at'),
  },
  (table) => [index('api_keys_user').on(table.userId, table.createdAt, table.keyId)],
);

/** Groups and scenes. The devices they name may be anybody's: rights are decided whenever one is used. */
export const collections = sqliteTable(
  'collections',
  {
    id: text('id').primaryKey(),
    userId: userReference('user_id'),
    kind: text('kind', { enum: ['group', 'scene'] }).notNull(),
    name: text('name').notNull(),
    content: text('content', { mode: 'json' }).$type<GroupContent | SceneContent>().notNull(),
    createdAt: integer('created_at').notNull(),
  },
  (table) => [index('collections_user').on(table.userId, table.kind, table.createdAt, table.id)],
);
