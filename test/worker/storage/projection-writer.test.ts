// The writer of projections: how many devices ever change at once, D1 sees one batch at a time, and none too many.
import { runInDurableObject } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { expect, it } from 'vitest';
import type { ProjectionOutcome } from '../../../src/domain/device/presence/projection.ts';
import { ProjectionWriter } from '../../../src/objects/projection-writer.ts';
import { call, createUser, makeProduct } from '../rig/clients/client.ts';

const projection = {
  version: 1,
  name: 'A switch',
  isDisabled: false,
  connectionStatus: 1,
  lastOnlineAt: 1,
  owner: null,
  dueAt: null,
} as const;

/** D1 as the writer sees it, with a record of the calls that were open at once. */
class RecordingDatabase {
  readonly batches: number[] = [];
  underWay = 0;
  mostAtOnce = 0;
  failures = 0;

  withSession(): D1DatabaseSession {
    const session = env.DB.withSession('first-primary');
    const batch = async (statements: D1PreparedStatement[]) => {
      this.batches.push(statements.length);
      this.mostAtOnce = Math.max(this.mostAtOnce, ++this.underWay);
      try {
        if (this.failures-- > 0) throw new Error('D1_ERROR: overloaded');
        return await session.batch(statements);
      } finally {
        this.underWay -= 1;
      }
    };
    return { prepare: session.prepare.bind(session), batch } as unknown as D1DatabaseSession;
  }
}

async function writeAtOnce(limits: string, deviceIds: string[], database = new RecordingDatabase()) {
  const stub = env.PROJECTION_WRITER.getByName(crypto.randomUUID());
  return runInDurableObject(stub, async (_, state) => {
    const vars = { ...env, LIMITS: limits, DB: database } as unknown as Env;
    const writer = new ProjectionWriter(state, vars);
    const writing = deviceIds.map((deviceId) => writer.write(deviceId, projection));
    return { database, writer, outcomes: await Promise.all(writing) };
  });
}

const someDevices = (count: number) => Array.from({ length: count }, (_, number) => `dev_none-${number}`);

function waitOf(outcome: ProjectionOutcome | undefined): number {
  return typeof outcome === 'object' ? outcome.retryAfterMs : 0;
}

it('devices that change at once are written together, a batch after the other', async () => {
  const user = await createUser();
  const productKey = await makeProduct(user);
  const activated = await Promise.all(
    someDevices(5).map((deviceSN) =>
      call<{ deviceId: string }>('POST', '/devices/activate', { body: { productKey, deviceSN } }),
    ),
  );
  const deviceIds = [...someDevices(495), ...activated.map(({ data }) => data.deviceId)];
  const { database, outcomes } = await writeAtOnce('projectionsPerSecond=100000', deviceIds);
  expect(outcomes.filter((outcome) => outcome !== 'written')).toEqual([]);
  expect(database.mostAtOnce).toBe(1);
  expect(Math.max(...database.batches)).toBe(50);
  expect(database.batches.length).toBeLessThan(15);
  const online = await call<{ total: number }>('GET', '/devices?status=online', user);
  expect(online.data.total).toBe(5);
});

it('a device that finds no place is told when it is its turn, each another time', async () => {
  const { outcomes } = await writeAtOnce('projectionsPerSecond=1000', someDevices(2_000));
  const waits = outcomes.map(waitOf).filter((ms) => ms > 0);
  expect(waits.length).toBeGreaterThanOrEqual(900);
  expect(waits[0]).toBeGreaterThanOrEqual(900);
  // Turns are 1 ms apart at 1 000 a second, so that the last one comes when all before it are written.
  expect(waits.at(-1)! - waits[0]!).toBeGreaterThanOrEqual(waits.length - 50);
  expect(new Set(waits).size).toBeGreaterThan(waits.length / 2);
});

it('a batch that D1 does not take fails its devices, and later ones are written', async () => {
  const database = new RecordingDatabase();
  database.failures = 1;
  const { outcomes } = await writeAtOnce('projectionsPerSecond=100000', someDevices(3), database);
  expect(outcomes.sort()).toEqual(['failed', 'written', 'written']);
});
