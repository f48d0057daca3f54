// Lines that an operator imports: what a deployment takes, and what it refuses. Whole moves are in test/system/moving.test.ts.
import { runDurableObjectAlarm } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { linesPerPage, maxImportBytes, type Exported, type MovedLine } from '../../../src/protocol/operator.ts';
import { operate } from '../rig/accounts.ts';
import { call, createUser, makeProduct, type TestUser } from '../rig/clients/client.ts';
import { activate } from '../rig/ownership.ts';
import { reportConnected } from '../rig/provision.ts';

type Record = { [slice: string]: unknown } & {
  identity: object;
  schedules: object[];
  outgoing: { last: number };
  presence: { projectionVersion: number };
};
type Device = MovedLine & { record: Record };

let owner: TestUser;
let original: Device;
let copies = 0;
beforeAll(async () => {
  owner = await createUser();
  const { deviceId } = (await activate(await makeProduct(owner))).data;
  const command = { action: 'toggle', position: 'up' };
  const schedule = { name: 'Morning', at: '07:30', zone: 'UTC', graceSeconds: 3_600, command };
  await call('POST', `/devices/${deviceId}/schedules`, { token: owner.token, body: schedule });
  // While the record lags behind the device, it is written again where it comes to.
  await vi.waitFor(async () => {
    original = await exported(deviceId);
    expect(original.record.presence.projectionVersion).toBe(original.row['projection_version']);
  }, 10_000);
});

async function exported(deviceId: string): Promise<Device> {
  const { data } = await operate<Exported>('/export', { after: { in: 'devices', at: 0 } });
  return data.lines.find(({ row }) => row['device_id'] === deviceId) as Device;
}

/** As it would come from another deployment. */
function copyOf({ row, record, ...place }: Device, slices: object = {}): Device {
  const deviceId = `dev_${String(++copies).padStart(8, '2')}`;
  const own = { id: 1_000 + copies, device_id: deviceId, device_sn: `COPY-${copies}` };
  return {
    ...place,
    row: { ...row, ...own },
    record: { ...record, identity: { ...record.identity, deviceId }, ...slices },
  };
}
const idOf = ({ row }: MovedLine) => String(row['device_id']);
const importLines = (...lines: unknown[]) => operate<{ results: string[] }>('/import', { lines });
const resultsOf = async (...lines: unknown[]) => (await importLines(...lines)).data.results;

it('is taken once, is there the second time, and is refused with another content', async () => {
  const line = copyOf(original);
  expect(await resultsOf(line)).toEqual(['taken']);
  expect(await resultsOf(line)).toEqual(['there']);
  expect(await resultsOf({ ...line, row: { ...line.row, name: 'Other' } })).toEqual(['differs from what is here']);
  const other = { ...line, record: { ...line.record, identity: { ...line.record.identity, name: 'Other' } } };
  expect(await resultsOf(other)).toEqual(['differs']);
  expect(await exported(idOf(line))).toEqual({ ...line, at: expect.any(Number) as number });
});

describe('is refused and changes nothing:', () => {
  it('a serial number that another device has', async () => {
    const line = copyOf(original);
    const row = { ...line.row, device_sn: original.row['device_sn'] };
    expect(await resultsOf({ ...line, row })).toEqual(['its name is taken']);
  });

  it('a record of another device, or with what this version does not know', async () => {
    const line = copyOf(original);
    expect(await resultsOf({ ...copyOf(original), record: line.record })).toEqual(['unreadable']);
    expect(await resultsOf(copyOf(original, { fromTheFuture: 1 }))).toEqual(['unreadable']);
    expect(await resultsOf(copyOf(original, { presence: null, schedules: 'none' }))).toEqual(['unreadable']);
  });

  it.each([
    ['a table that is not moved', () => [{ ...original, in: 'refresh_tokens' }]],
    ['a column that is none', () => [{ ...original, row: { ...original.row, 'id) --': 1 } }]],
    ['a row without its key', () => [{ ...original, row: { name: 'x' } }]],
    ['a row that refers to nothing', () => [{ in: 'user_limits', at: 1, row: { user_id: 0, name: 'x', value: 1 } }]],
    ['lines of several tables', () => [original, { ...original, in: 'users' }]],
    ['a value that is no text or number', () => [{ ...original, row: { ...original.row, name: ['x'] } }]],
    ['a text that is too long', () => [{ ...original, row: { ...original.row, name: 'x'.repeat(65_537) } }]],
    ['too many lines', () => Array.from({ length: linesPerPage + 1 }, () => original)],
  ])('%s', async (_, lines) => {
    expect(await importLines(...lines())).toMatchObject({
      status: 400,
      message: expect.stringMatching(/^invalid_r/) as string,
    });
  });
});

it('is read up to a size', async () => {
  const answer = await importLines('x'.repeat(maxImportBytes));
  expect(answer).toMatchObject({ status: 400, message: expect.stringContaining('larger than') as string });
});

describe('until it connects here', () => {
  const due = () => {
    const next = { dueAtMs: Date.now() - 1_000, startAtMs: Date.now() - 1_000, skip: null };
    return original.record.schedules.map((schedule) => ({
      ...schedule,
      next: { ...(schedule as { next: object }).next, ...next },
    }));
  };
  const alarm = (line: Device) => runDurableObjectAlarm(env.DEVICE_SESSION.getByName(idOf(line)));
  const runsOf = async (line: Device) =>
    (await call<{ list: object[] }>('GET', `/devices/${idOf(line)}/runs`, { token: owner.token })).data.list;

  it('no schedule waits for it: where it is still connected, the schedule runs', async () => {
    const line = copyOf(original, { schedules: due() });
    expect(await resultsOf(line)).toEqual(['taken']);
    await alarm(line);
    expect(await runsOf(line)).toMatchObject([{ outcome: 'missed', reason: 'device_offline' }]);
  });

  it('afterwards a schedule waits, and numbers of events leave those out that the other deployment may have given', async () => {
    const line = copyOf(original);
    expect(await resultsOf(line)).toEqual(['taken']);
    await reportConnected({ deviceId: idOf(line) });
    const { record } = await exported(idOf(line));
    expect(record.outgoing.last).toBeGreaterThanOrEqual(original.record.outgoing.last + 10_000);
  });
});
