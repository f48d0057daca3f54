// The other side of B1: a Hono Worker in the same workerd. It does the same D1 statements, or one object call, and nothing
// else. Checks nobody, validates nothing.
import { DurableObject } from 'cloudflare:workers';
import { Hono } from 'hono';

type Statement = { sql: string; params: unknown[] };
type BareEnv = {
  DB: D1Database;
  OBJECT: DurableObjectNamespace<BareObject>;
  /** JSON: the statements that the service sends for a device, and for a list. */
  STATEMENTS: string;
};

export class BareObject extends DurableObject<BareEnv> {
  read(deviceId: string) {
    return {
      deviceId,
      deviceName: 'Servo switch',
      online: false,
      position: null,
      status: 'offline',
      lastOnlineAt: null,
    };
  }
}

const app = new Hono<{ Bindings: BareEnv }>();

const statements: Partial<Record<'device' | 'list', Statement[]>> = {};

function statementsOf(env: BareEnv, path: 'device' | 'list'): Statement[] {
  if (statements[path] === undefined) Object.assign(statements, JSON.parse(env.STATEMENTS));
  return statements[path] ?? [];
}

app.get('/device/:deviceId', async (c) => {
  const session = c.env.DB.withSession('first-primary');
  const { sql } = statementsOf(c.env, 'device')[0] ?? { sql: '' };
  return c.json({ list: await session.prepare(sql).bind(c.req.param('deviceId')).raw() });
});

app.get('/list', async (c) => {
  const session = c.env.DB.withSession('first-unconstrained');
  const prepared = statementsOf(c.env, 'list').map(({ sql, params }) => session.prepare(sql).bind(...params));
  const results = await session.batch(prepared);
  return c.json({ lists: results.map((result) => result.results) });
});

app.get('/object/:deviceId', async (c) => {
  const deviceId = c.req.param('deviceId');
  return c.json(await c.env.OBJECT.getByName(deviceId).read(deviceId));
});

export default app;
