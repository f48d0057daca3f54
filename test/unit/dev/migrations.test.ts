// Triggers of the migrations keep the counters. Migrations after the first leave what the version before them reads and writes:
// a deployment goes back to that version and keeps its database.
import { readdirSync, readFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { expect, it } from 'vitest';

const folder = new URL('../../../migrations/', import.meta.url);
const files = readdirSync(folder)
  .filter((name) => name.endsWith('.sql'))
  .sort();

function openMigrated(): DatabaseSync {
  const database = new DatabaseSync(':memory:');
  for (const name of files) database.exec(readFileSync(new URL(name, folder), 'utf8'));
  return database;
}

it('counts devices and products', () => {
  const database = openMigrated();
  database.exec(`
    insert into users (id, username, email, folded_username, folded_email, password_hash, project_id, created_at)
    values (1, 'a', 'a', 'a', 'a', '', '', 0), (2, 'b', 'b', 'b', 'b', '', '', 0);
    insert into products (id, product_key, owner_id, project_id, name, description, category, control_mode, ui_template,
      icon_name, icon_color, manufacturer, model, status, created_at, updated_at, deleted_at)
    select column1, 'key-' || column1, column2, '', '', '', column4, 'generic', '', '', '', '', '', 1, 0, 0, column3
    from (values (1, 1, null, 'lamp'), (2, 1, null, 'door'), (3, 1, 5, 'lamp'), (4, 2, null, 'lamp'));
    insert into devices (device_id, product_id, device_sn, owner_id, project_id, name, firmware_version, chip_model,
      is_disabled, connection_status, created_at)
    select 'dev_' || column1, column2, column1, column3, '', '', '', '', column4, column5, 0
    from (values (1, 1, 1, 0, 1), (2, 1, 1, 0, 2), (3, 1, 1, 1, 1), (4, 1, 1, 0, 0), (5, 2, 1, 0, 1), (6, 4, 2, 0, 2))`);
  const counts = () =>
    database
      .prepare('select product_id, owner_id, devices, inactive, online, disabled from device_counts order by 1, 2')
      .all()
      .map((row) => Object.values(row));
  expect(counts()).toEqual([
    [1, 1, 4, 1, 1, 1],
    [2, 1, 1, 0, 1, 0],
    [4, 2, 1, 0, 0, 0],
  ]);
  database.exec(
    "update devices set is_disabled = 0, name = 'x' where device_id = 'dev_3'; delete from devices where id = 6",
  );
  expect(counts()).toEqual([
    [1, 1, 4, 1, 2, 0],
    [2, 1, 1, 0, 1, 0],
    [4, 2, 0, 0, 0, 0],
  ]);
  const products = database.prepare('select owner_id, products, product_keys from product_counts order by 1').all();
  expect(products.map((row) => Object.values(row))).toEqual([
    [1, 2, 3],
    [2, 1, 1],
  ]);
  const categories = () => rowsOf(database, 'select owner_id, category, products from product_category_counts');
  expect(categories()).toEqual(['1 door 1', '1 lamp 1', '2 lamp 1']);
  database.exec(
    "update products set category = 'door' where id = 1; update products set deleted_at = null where id = 3",
  );
  expect(categories()).toEqual(['1 door 2', '1 lamp 1', '2 lamp 1']);
  // Both at once, as when a deleted key is taken up again; and a change of something else.
  database.exec("update products set category = 'gate', deleted_at = 7 where id = 3; update products set name = 'x'");
  expect(categories()).toEqual(['1 door 2', '2 lamp 1']);
  database.exec("update products set category = 'wall', deleted_at = null where id = 3");
  expect(categories()).toEqual(['1 door 2', '1 wall 1', '2 lamp 1']);
  // An upsert's own policy replaces that of statements inside a trigger.
  database.exec(`
    update products set deleted_at = 7 where id = 3;
    insert into products (product_key, owner_id, project_id, name, description, category, control_mode, ui_template,
      icon_name, icon_color, manufacturer, model, status, created_at, updated_at)
    values ('key-3', 1, '', '', '', 'door', 'generic', '', '', '', '', '', 1, 0, 0)
    on conflict (product_key) do update set category = excluded.category, deleted_at = null`);
  expect(categories()).toEqual(['1 door 3', '2 lamp 1']);
});

it('counts API keys, invitations and users', () => {
  const database = openMigrated();
  const addUser = (id: number, disabledAt: number | null) =>
    database.exec(`
      insert into users (id, username, email, folded_username, folded_email, password_hash, project_id, created_at, disabled_at)
      values (${id}, 'u${id}', 'u${id}', 'u${id}', 'u${id}', '', '', 0, ${disabledAt})`);
  const addKey = (id: string, userId: number) =>
    database.exec(`
      insert into api_keys (key_id, user_id, secret_hash, description, scopes, created_at)
      values ('${id}', ${userId}, '', '', '[]', 0)`);
  const invite = (device: number, email: string) =>
    database.exec(`
      insert into device_invitations (id, device_row, email, folded_email, role, invited_by, created_at, expires_at)
      values ('${device} ${email}', ${device}, '${email}', '${email}', 'viewer', 1, 0, 0)
      on conflict (device_row, folded_email) do update set created_at = 1`);
  addUser(1, null);
  addUser(2, 5);
  addKey('a', 1);
  database.exec(`
    insert into products (id, product_key, owner_id, project_id, name, description, category, control_mode, ui_template,
      icon_name, icon_color, manufacturer, model, status, created_at, updated_at)
    values (1, 'key', 1, '', '', '', '', 'generic', '', '', '', '', '', 1, 0, 0);
    insert into devices (id, device_id, product_id, device_sn, owner_id, project_id, name, firmware_version, chip_model,
      connection_status, created_at)
    values (1, 'dev_1', 1, '1', 1, '', '', '', '', 0, 0), (2, 'dev_2', 1, '2', 1, '', '', '', '', 0, 0)`);
  invite(1, 'a@b');
  const counts = () => rowsOf(database, 'select list, subject, entries from list_counts');
  expect(counts()).toEqual(['api_keys 1 1', 'invitations a@b 1', 'users disabled 1', 'users enabled 1']);
  addKey('b', 1);
  addKey('c', 2);
  invite(1, 'a@b');
  invite(1, 'c@d');
  invite(2, 'a@b');
  addUser(3, null);
  database.exec(
    "update users set disabled_at = null, username = 'x' where id = 2; update users set email = 'y' where id = 1",
  );
  expect(counts()).toEqual([
    'api_keys 1 2',
    'api_keys 2 1',
    'invitations a@b 2',
    'invitations c@d 1',
    'users disabled 0',
    'users enabled 3',
  ]);
  // With the device go its invitations.
  database.exec(`
    delete from api_keys where user_id = 1; delete from devices where id = 1; update users set disabled_at = 7 where id = 1`);
  expect(counts()).toEqual(['api_keys 2 1', 'invitations a@b 1', 'users disabled 1', 'users enabled 2']);
});

it('counts offers that come, go, and are made to another user', () => {
  const database = openMigrated();
  for (const id of [1, 2, 3]) {
    database.exec(`
      insert into users (id, username, email, folded_username, folded_email, password_hash, project_id, created_at)
      values (${id}, 'u${id}', 'u${id}', 'u${id}', 'u${id}', '', '', 0)`);
  }
  const offer = (device: string, to: number | null) =>
    database.exec(`
      insert into device_transfers (device_id, offer_id, from_user_id, to_user_id, offered_at, expires_at)
      values ('${device}', 'x', 1, ${to}, 0, 0) on conflict (device_id) do update set to_user_id = excluded.to_user_id`);
  offer('a', 2);
  offer('b', null);
  const counts = () => rowsOf(database, "select subject, entries from list_counts where list = 'transfers'");
  expect(counts()).toEqual(['2 1']);
  offer('a', 2);
  offer('b', 2);
  offer('c', 3);
  expect(counts()).toEqual(['2 2', '3 1']);
  offer('a', 3);
  offer('b', null);
  expect(counts()).toEqual(['3 2']);
  database.exec("update device_transfers set expires_at = 7; delete from device_transfers where device_id <> 'c'");
  expect(counts()).toEqual(['3 1']);
});

function rowsOf(database: DatabaseSync, query: string): string[] {
  return database
    .prepare(query)
    .all()
    .map((row) => Object.values(row).join(' '))
    .toSorted();
}

it.each(files.slice(1))('%s takes nothing away that code before it names', (file) => {
  const statements = readFileSync(new URL(file, folder), 'utf8').split('--> statement-breakpoint');
  expect(statements.filter((text) => /\b(drop (table|view|column)|rename)\b/i.test(text))).toEqual([]);
  const columns = statements.filter((text) => /^\s*alter table/i.test(text));
  expect(columns.filter((text) => /\bnot null\b/i.test(text) && !/\bdefault\b/i.test(text))).toEqual([]);
});
