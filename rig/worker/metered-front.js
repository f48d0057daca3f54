// An entry in front of the unchanged built Worker that counts what Cloudflare charges for. That is requests; calls,
// messages, alarms and rows of objects; statements and rows of D1; operations of R2. GET /meter answers the counts since the last POST
// /meter. POST /meter?advanceMs=N moves the Worker's clock on; alarms due by then fire. Loaded by worker-process.ts as
// text.
import * as built from './index.js';

let counts = {};
let offsetMs = 0;
const realNow = Date.now;
Date.now = () => realNow() + offsetMs;

/** By class and id: when it is to fire, on the moved clock. */
const alarms = new Map();

function add(name, count = 1) {
  if (count !== 0) counts[name] = (counts[name] ?? 0) + count;
}

const envs = new WeakMap();

/** One for each env, because the Worker remembers what it has read of it. */
function meteredEnv(env) {
  if (!envs.has(env)) {
    envs.set(env, { ...env, DB: meteredDatabase(env.DB), FIRMWARE: meteredBucket(env.FIRMWARE) });
  }
  return envs.get(env);
}

function meteredBucket(bucket) {
  const counted =
    (name, how) =>
    (key, ...args) => {
      add(name);
      return bucket[how](key, ...args);
    };
  return {
    get: counted('R2 reads', 'get'),
    put: counted('R2 writes', 'put'),
    delete: counted('R2 deletes', 'delete'),
    list: counted('R2 writes', 'list'),
  };
}

const isInner = Symbol('statement');
const isProjection = Symbol('projection');
/** Once a second and isolate, whichever request comes then (objects/calls/revoked-users.ts). */
const ofIsolate = /^select id from "?users"? where disabled_at >/i;

function meteredDatabase(database) {
  return {
    prepare: (sql) => meteredStatement(sql, database.prepare(sql)),
    batch: async (statements) => {
      const results = await database.batch(statements.map((statement) => statement[isInner]));
      for (const { meta } of results) addD1(meta);
      add('D1 projections', statements.filter((statement) => statement[isProjection]).length);
      return results;
    },
    withSession: (constraint) => meteredDatabase(database.withSession(constraint)),
  };
}

function addD1(meta) {
  add('D1 statements');
  add('D1 rows read', meta.rows_read);
  add('D1 rows written', meta.rows_written);
}

function meteredStatement(sql, statement) {
  const run = (how) => async () => {
    const result = await statement[how]();
    if (!ofIsolate.test(sql)) addD1(result.meta);
    else {
      add('D1 reads of revoked users');
      add('D1 rows read', result.meta.rows_read);
    }
    return result;
  };
  return {
    [isInner]: statement,
    [isProjection]: /^\s*update "?devices\b/i.test(sql) && sql.includes('projection_version'),
    bind: (...values) => meteredStatement(sql, statement.bind(...values)),
    all: run('all'),
    run: run('run'),
    first: async (column) => {
      const { results } = await run('all')();
      return column === undefined ? (results[0] ?? null) : (results[0]?.[column] ?? null);
    },
    raw: async (options) => {
      const rows = await statement.raw(options);
      // Its answer has no counts; a read may be asked a second time.
      if (/^\s*select/i.test(sql)) addD1((await statement.all()).meta);
      else addD1({ rows_read: 0, rows_written: rows.length });
      return rows;
    },
  };
}

function addWritten(name, rows) {
  add('object rows written', rows);
  add(`${name} rows written`, rows);
}

/** The object's own, with a storage that counts. */
function meterStorage(ctx, name) {
  const { storage } = ctx;
  const key = `${name} ${ctx.id.toString()}`;
  const sql = {
    exec: (...args) => {
      const cursor = storage.sql.exec(...args);
      // It is read to its end before anything is awaited.
      queueMicrotask(() => {
        add('object rows read', cursor.rowsRead);
        addWritten(name, cursor.rowsWritten);
      });
      return cursor;
    },
    get databaseSize() {
      return storage.sql.databaseSize;
    },
  };
  const { kv } = storage;
  const meteredKv = {
    get(entry) {
      add('object rows read');
      return kv.get(entry);
    },
    put(entry, value) {
      addWritten(name, 1);
      kv.put(entry, value);
    },
    delete(entry) {
      addWritten(name, 1);
      return kv.delete(entry);
    },
  };
  const metered = {
    sql,
    kv: meteredKv,
    setAlarm: (atMs) => {
      // The price list: each setAlarm is a row written.
      addWritten(name, 1);
      add('object alarms set');
      alarms.set(key, { name, id: ctx.id.toString(), atMs: Number(atMs) });
      return storage.setAlarm(Number(atMs) - offsetMs);
    },
    getAlarm: async () => {
      const atMs = await storage.getAlarm();
      return atMs === null ? null : (alarms.get(key)?.atMs ?? atMs + offsetMs);
    },
    deleteAlarm: () => {
      alarms.delete(key);
      return storage.deleteAlarm();
    },
  };
  const proxy = new Proxy(storage, {
    get: (target, property) => {
      if (property in metered) return metered[property];
      const value = target[property];
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
  Object.defineProperty(ctx, 'storage', { value: proxy });
  return ctx;
}

const kinds = { alarm: 'alarms', webSocketMessage: 'messages', webSocketClose: 'closes', webSocketError: 'closes' };

function metered(name, Real) {
  /** Of the objects of this class: a method that calls another one of its own is one call. */
  let isInside = false;

  const Metered = class extends Real {
    constructor(ctx, env) {
      add(`wakes ${name}`);
      super(meterStorage(ctx, name), meteredEnv(env));
    }

    async fireAlarm() {
      await this.alarm?.({ retryCount: 0, isRetry: false, scheduledTime: Date.now() });
    }
  };
  for (const [method, { value }] of Object.entries(Object.getOwnPropertyDescriptors(Real.prototype))) {
    if (method === 'constructor' || typeof value !== 'function') continue;
    Metered.prototype[method] = function (...args) {
      if (isInside) return value.apply(this, args);
      const kind = kinds[method] ?? 'calls';
      add(`object ${kind}`);
      add(`${name}.${method}`);
      if (kind === 'alarms') alarms.delete(`${name} ${this.ctx.id.toString()}`);
      const startedAtMs = realNow();
      const noteEnd = () => {
        add('object ms', realNow() - startedAtMs);
        add(`${name} ms`, realNow() - startedAtMs);
      };
      isInside = true;
      try {
        const result = value.apply(this, args);
        if (typeof result?.then === 'function') result.then(noteEnd, noteEnd);
        else noteEnd();
        return result;
      } finally {
        isInside = false;
      }
    };
  }
  return Metered;
}

export const BrokerLink = metered('BrokerLink', built.BrokerLink);
export const BulkRun = metered('BulkRun', built.BulkRun);
export const Campaign = metered('Campaign', built.Campaign);
export const DeviceSession = metered('DeviceSession', built.DeviceSession);
export const FleetDirectory = metered('FleetDirectory', built.FleetDirectory);
export const HomeBroker = metered('HomeBroker', built.HomeBroker);
export const ProductPropagator = metered('ProductPropagator', built.ProductPropagator);
export const ProjectionWriter = metered('ProjectionWriter', built.ProjectionWriter);
export const RelayGateway = metered('RelayGateway', built.RelayGateway);
export const UserInbox = metered('UserInbox', built.UserInbox);
export const WebhookEndpoint = metered('WebhookEndpoint', built.WebhookEndpoint);

async function answerMeter(request, env) {
  if (request.method === 'GET') return Response.json(counts);
  const advanceMs = Number(new URL(request.url).searchParams.get('advanceMs') ?? -1);
  if (advanceMs < 0) counts = {};
  offsetMs += Math.max(0, advanceMs);
  const due = [...alarms].filter(([, { atMs }]) => atMs <= Date.now()).sort(([, a], [, b]) => a.atMs - b.atMs);
  for (const [key, { name, id }] of due) {
    alarms.delete(key);
    const namespace = env[name.replaceAll(/(?<=[a-z])(?=[A-Z])/g, '_').toUpperCase()];
    await namespace.get(namespace.idFromString(id)).fireAlarm();
  }
  return new Response(null, { status: 204 });
}

export default {
  fetch: (request, env, ctx) => {
    if (new URL(request.url).pathname === '/meter') return answerMeter(request, env);
    add('requests');
    return built.default.fetch(request, meteredEnv(env), ctx);
  },
  scheduled: (controller, env, ctx) => built.default.scheduled(controller, meteredEnv(env), ctx),
};
