// No query of a request reads a whole table: every statement the routes send to D1 is recorded and explained.
import { env } from 'cloudflare:workers';
import { expect, it } from 'vitest';
import { createUser } from '../rig/clients/client.ts';
import { listUnusedDevices } from '../../../src/db/devices/devices.ts';
import { openDatabase } from '../../../src/db/client.ts';
import { RecordedDatabase } from '../rig/recorded-database.ts';

const database = new RecordedDatabase();

async function send(method: string, path: string, headers: Record<string, string>, body?: object): Promise<unknown> {
  const response = await database.fetch(method, path, headers, body);
  const envelope = await response.json<{ code: number; data: unknown }>();
  expect(envelope).toMatchObject({ code: 200 });
  return envelope.data;
}

/** How SQLite runs a statement: one line a table it visits. */
async function explain(statement: string): Promise<string[]> {
  const values = Array.from(statement.matchAll(/\?/g), () => null);
  const { results } = await env.DB.prepare(`explain query plan ${statement}`)
    .bind(...values)
    .all<{ detail: string }>();
  return results.map(({ detail }) => detail);
}

async function callEveryRoute(): Promise<void> {
  const names = { username: 'planner', email: 'planner@example.test' };
  const [password, newPassword] = ['correct horse', 'another horse'];
  await send('POST', '/users/register', {}, { ...names, password });
  const session = (await send('POST', '/users/login', {}, { email: names.email, password })) as {
    token: string;
    refreshToken: string;
  };
  const inPerson = { Authorization: `Bearer ${session.token}` };
  await send('PUT', '/users/password', inPerson, { oldPassword: password, newPassword });
  await send('POST', '/users/refresh-token', {}, { refreshToken: session.refreshToken });
  const key = (await send('POST', '/users/api-keys', inPerson, {})) as { keyId: string; apiKey: string };
  const withKey = { 'X-API-Key': key.keyId, 'X-API-Secret': key.apiKey };
  await send('GET', '/users/me', withKey);
  await send('GET', '/users/api-keys', inPerson);
  await send('GET', '/users/api-keys?page=2', inPerson);
  await send('POST', '/products', withKey, { productKey: 'planned', name: 'Planned' });
  await send('GET', '/products', withKey);
  await send('GET', '/products?category=general&page=2', withKey);
  await send('PUT', '/products/planned', withKey, { name: 'Planned again' });
  const activation = { productKey: 'planned', deviceSN: 'SN-1' };
  const device = (await send('POST', '/devices/activate', {}, activation)) as { deviceId: string };
  await send('POST', '/devices/activate', {}, activation);
  for (const filter of [
    '',
    'productKey=planned&',
    'status=1&',
    'status=2&',
    'status=3&',
    'productKey=planned&status=2&',
  ]) {
    for (const where of ['page=1', 'page=2', 'page=999999', 'after=1-1'])
      await send('GET', `/devices?${filter}${where}`, withKey);
  }
  for (const filter of ['', 'role=viewer&', 'productKey=planned&status=2&']) {
    for (const where of ['page=1', 'page=2', 'after=1-1']) {
      await send('GET', `/devices?tag=attic&${filter}${where}`, withKey);
    }
  }
  const group = { name: 'Planned', deviceIds: [device.deviceId] };
  const { groupId } = (await send('POST', '/groups', withKey, group)) as { groupId: string };
  await send('PATCH', `/groups/${groupId}`, withKey, { deviceIds: null, tag: 'attic' });
  await send('GET', `/groups/${groupId}`, withKey);
  for (const page of [1, 2]) await send('GET', `/groups?page=${page}`, withKey);
  await send('DELETE', `/groups/${groupId}`, withKey);
  await send('GET', '/devices?search=pla&productKey=planned&status=2', withKey);
  await send('GET', `/devices/${device.deviceId}`, withKey);
  const guest = await createUser();
  const asGuest = { Authorization: `Bearer ${guest.token}` };
  const members = `/devices/${device.deviceId}/members`;
  type Invitation = { invitationId: string };
  const invitation = { email: guest.email, role: 'viewer' };
  for (const accepted of [true, false]) {
    const { invitationId } = (await send('POST', members, withKey, invitation)) as Invitation;
    await send('GET', `/devices/${device.deviceId}/invitations`, withKey);
    await send('GET', '/invitations', asGuest);
    await send('GET', '/invitations?page=2', asGuest);
    if (accepted) await send('POST', `/invitations/${invitationId}/accept`, asGuest);
    else await send('DELETE', `/invitations/${invitationId}`, asGuest);
  }
  const { invitationId } = (await send('POST', members, withKey, invitation)) as Invitation;
  await send('DELETE', `/devices/${device.deviceId}/invitations/${invitationId}`, withKey);
  await send('GET', members, withKey);
  for (const filter of ['', 'role=owner&', 'role=viewer&', 'role=viewer&productKey=planned&status=2&']) {
    for (const where of ['page=1', 'page=2', 'after=1-1']) await send('GET', `/devices?${filter}${where}`, asGuest);
  }
  await send('GET', `/devices/${device.deviceId}`, asGuest);
  await send('DELETE', `${members}/${guest.userId}`, withKey);
  await send('POST', '/products/planned/serials', withKey, { serials: ['SN-2', 'SN-3'] });
  for (const page of [1, 2]) await send('GET', `/products/planned/serials?page=${page}`, withKey);
  await send('DELETE', '/products/planned/serials/SN-3', withKey);
  await send('GET', '/products/planned/figures', withKey);
  const { token } = (await send('POST', '/devices/claim-tokens', inPerson)) as { token: string };
  await send('GET', `/claim-tokens/${token}`, inPerson);
  const handedOn = `/devices/${device.deviceId}`;
  await send('POST', `${handedOn}/transfer`, inPerson, { email: guest.email });
  await send('GET', `${handedOn}/ownership`, inPerson);
  for (const page of [1, 2]) await send('GET', `/devices/transfers?page=${page}`, asGuest);
  await send('POST', `${handedOn}/transfer/accept`, asGuest);
  await send('POST', `${handedOn}/release`, asGuest);
  await send('DELETE', `/devices/${device.deviceId}`, withKey);
  for (const filter of [
    'status=1',
    'createdAfter=2026-01-01T00:00:00Z',
    'status=2&createdBefore=2026-01-01T00:00:00Z',
  ]) {
    await send('DELETE', `/products/planned/devices?${filter}`, withKey);
  }
  await send('DELETE', '/products/planned', withKey);
  await send('DELETE', `/users/api-keys/${key.keyId}`, inPerson);
  type Sessions = { list: { sessionId: string }[] };
  for (const page of ['page=1', 'page=2']) await send('GET', `/users/me/security-events?${page}`, inPerson);
  for (const page of ['page=1', 'page=2']) await send('GET', `/users/me/sessions?${page}`, inPerson);
  const { list } = (await send('GET', '/users/me/sessions', inPerson)) as Sessions;
  await send('POST', '/users/me/confirmations', inPerson, { password: newPassword });
  await send('DELETE', '/users/me/sessions?keep=current', inPerson);
  await send('DELETE', `/users/me/sessions/${list[0]?.sessionId}`, inPerson);
  await send('DELETE', '/users/me/sessions', asGuest);
  await send('POST', '/users/logout', inPerson);
}

it('no statement of any route scans a table or sorts what an index could have sorted', async () => {
  await createUser();
  await callEveryRoute();
  await listUnusedDevices(openDatabase(database.binding), [0, 0], Date.now(), 20);
  const statements = new Set(database.statements);
  expect(statements.size).toBeGreaterThan(30);
  const { results } = await env.DB.prepare("select name from sqlite_master where type = 'table'").all<{
    name: string;
  }>();
  const tables = results.map(({ name }) => name);
  for (const statement of statements) {
    const plan = await explain(statement);
    const costly = plan.filter((line) => {
      // A result in memory is scanned as well, but its own query is explained, too.
      const scanned = /^SCAN (\S+)/.exec(line)?.[1];
      // A table the statement does not name would be searched for rows that a violated foreign key left behind.
      return (
        line.includes('TEMP B-TREE') ||
        (scanned !== undefined && tables.includes(scanned) && statement.includes(scanned))
      );
    });
    expect({ statement, costly }).toEqual({ statement, costly: [] });
  }
});
