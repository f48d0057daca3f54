// A device's object whose rows a newer version of the code has written, as after going back to the version before: it works on, and
// what it does not know stays or is left out.
import { runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { expect, it } from 'vitest';
import { bringUp } from '../rig/clients/bridge.ts';
import { call } from '../rig/clients/client.ts';
import * as commands from '../rig/commands.ts';

const { activateOnline, control, down, listOf, nextCommand, reply, report, sleep, up } = commands;

commands.prepareOwnerAndBridge();

/** Adds a member of a newer version to each object down to `depth`; objects below hold data. */
function withMore(value: unknown, depth: number): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || depth === 0) return value;
  const members = Object.entries(value).map(([name, member]) => [name, withMore(member, depth - 1)] as const);
  return { ...Object.fromEntries(members), ofNewerVersion: { n: 1 } };
}

it('runs on rows, columns, tables and slices that are newer than its code', async () => {
  const device = await activateOnline();
  const object = env.DEVICE_SESSION.getByName(device.deviceId);
  const read = async (view: 'status' | 'events') => {
    const path = `/devices/${device.deviceId}/${view}`;
    return (await call<Record<string, unknown>>('GET', path, { token: commands.owner.token })).data;
  };
  const run = async (body: object) => {
    const { status } = await control(device, body);
    expect(status).toBe(200);
    await bringUp(device, reply((await nextCommand(device)).id, 200));
  };
  await bringUp(device, report({ position: 'up', mood: 'fine' }));
  await run(up);

  const version = await runInDurableObject(object, (_, { storage: { sql } }) => {
    const slices = sql.exec<{ name: string; json: string }>('SELECT name, json FROM slice').toArray();
    expect(slices.length).toBeGreaterThan(1);
    for (const { name, json } of slices) {
      sql.exec('UPDATE slice SET json = ? WHERE name = ?', JSON.stringify(withMore(JSON.parse(json), 2)), name);
    }
    sql.exec(`INSERT INTO slice (name, json) VALUES ('of_newer_version', '{"n":1}')`);
    for (const table of ['transition', 'command', 'idempotency_record', 'journal']) {
      sql.exec(`ALTER TABLE ${table} ADD COLUMN of_newer_version TEXT`);
      for (const { json } of sql.exec<{ json: string }>(`SELECT json FROM ${table}`).toArray()) {
        sql.exec(`UPDATE ${table} SET json = ? WHERE json = ?`, JSON.stringify(withMore(JSON.parse(json), 1)), json);
      }
    }
    sql.exec('CREATE TABLE of_newer_version (id INTEGER PRIMARY KEY, json TEXT NOT NULL)');
    sql.exec('UPDATE version SET number = number + 1');
    return sql.exec<{ number: number }>('SELECT number FROM version').one().number;
  });
  await sleep(device);

  expect(await read('status')).toMatchObject({ online: true, position: 'up' });
  const [answer] = await bringUp(device, report({ position: 'down' }));
  expect(answer).toMatchObject({ result: 'accepted' });
  await run(down);
  expect((await listOf(device)).list.map(({ state }) => state)).toEqual(['acknowledged', 'acknowledged']);
  expect((await read('events'))['total']).toBeGreaterThan(0);
  await sleep(device);
  expect(await read('status')).toMatchObject({ online: true, position: 'down' });
  await runInDurableObject(object, (_, { storage: { sql } }) => {
    expect(sql.exec('SELECT number FROM version').one()).toEqual({ number: version });
    expect(sql.exec("SELECT json FROM slice WHERE name = 'of_newer_version'").one()).toEqual({ json: '{"n":1}' });
  });
});
