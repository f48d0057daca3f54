// B1: what the service adds to its own D1 statements and object calls. Three signed-in reads, each against a bare Hono
// Worker in the same workerd with the same statements or object call.
import { findDevice } from '../src/db/devices/devices.ts';
import { listDevices } from '../src/db/devices/lists.ts';
import { WorkerRig, workerVars } from '../rig/worker/worker-rig.ts';
import { loadHttp, type HttpRequest } from './parts/http-load.ts';
import { makeNeighbour } from './parts/neighbours.ts';
import { recordStatements } from './parts/recorded-statements.ts';
import type { BenchResult, Target } from './parts/results.ts';
import { showTrouble } from './parts/rig.ts';
import { ratiosOf, takeTurns, type BenchOptions } from './parts/rounds.ts';
import { percentile } from './parts/statistics.ts';

type Side = 'service' | 'bare';
type Path = { name: string; count: number; target: Target; requests: Record<Side, HttpRequest[]> };

const sides = ['service', 'bare'] as const;
const connections = 8;
const deviceCount = 100;
const pageSize = 20;
const quickShare = 0.1;
const warmUpRounds = 2;
/** The first id of a fresh database. */
const firstUserId = 1;

/** LOG_INFO_SHARE is that of wrangler.toml. The scheduled job does not run, because it would fall into some rounds only. */
const vars = { LOG_INFO_SHARE: '0.1', LIMITS: workerVars.LIMITS, SCHEDULE_SECONDS: '86400' };

export const requestVariants: readonly string[] = ['device by id', 'list of 20 with its total', 'status view'];

export async function startRequests(): Promise<WorkerRig> {
  const page = { page: 1, size: pageSize };
  const filter = { userId: firstUserId, role: undefined, productKey: undefined, statusCode: undefined };
  const recorded = {
    device: await recordStatements((db) => findDevice(db, '')),
    list: await recordStatements((db) => listDevices(db, filter, page, undefined)),
  };
  const bare = await makeNeighbour('bare', { OBJECT: 'BareObject' }, { STATEMENTS: JSON.stringify(recorded) });
  return WorkerRig.start({ vars, neighbours: [bare], onWorkerLine: (line) => showTrouble('Worker', line) });
}

export async function measureRequests(rig: WorkerRig, options: BenchOptions): Promise<BenchResult> {
  const { rounds, isQuick, variant, say } = options;
  const [bare] = rig.neighbours;
  if (bare === undefined) throw new Error('B1 needs the bare Worker');
  const devices = await rig.activateMany(deviceCount);
  const ports: Record<Side, number> = { service: rig.port, bare: bare.port };
  const result: BenchResult = {
    name: 'B1',
    title:
      'signed-in reads, against the same D1 statements or one object call in a bare Hono Worker of the same workerd',
    settings: [
      `${connections} connections, the next request when an answer is complete; ${deviceCount} devices in turn`,
      `service: a bearer token, ${Object.entries({ ...workerVars, ...vars })
        .map(([name, value]) => `${name}=${value}`)
        .join(', ')}; bare: no token, no checks, the rows as they are`,
    ],
    measures: [],
    failures: [],
  };
  const run = async (side: Side, { name, requests, count }: Path) => {
    const { perSecond, timesMs, problems } = await loadHttp(
      ports[side],
      connections,
      requests[side],
      isQuick ? count * quickShare : count,
    );
    for (const problem of problems) result.failures.push(`${name}, ${side}: ${problem}`);
    return { perSecond, timesMs };
  };
  for (const path of pathsOf(
    rig,
    devices.map(({ deviceId }) => deviceId),
  )) {
    if (variant !== null && path.name !== variant) continue;
    const rates: Record<Side, number[]> = { service: [], bare: [] };
    const times: Record<Side, Record<50 | 99, number[]>> = { service: { 50: [], 99: [] }, bare: { 50: [], 99: [] } };
    for (let round = 0; round < (isQuick ? 0 : warmUpRounds); round += 1)
      for (const side of sides) await run(side, path);
    for (let round = 0; round < rounds; round += 1) {
      await takeTurns(sides, round, async (side) => {
        const { perSecond, timesMs } = await run(side, path);
        rates[side].push(perSecond);
        for (const percent of [50, 99] as const) times[side][percent].push(percentile(timesMs, percent));
      });
      const shown = sides.map((side) => `${side} ${Math.round(rates[side].at(-1) ?? 0)}/s`);
      say(`B1 ${path.name}, round ${round + 1}: ${shown.join(', ')}`);
    }
    const target = isQuick ? {} : { target: path.target };
    result.measures.push({ name: path.name, unit: 'x bare', perRound: ratiosOf(rates.service, rates.bare), ...target });
    for (const side of sides) {
      const of = side === 'service' ? 'service' : 'bare Worker';
      result.measures.push(
        { name: `  ${of}`, unit: 'requests/s', perRound: rates[side] },
        { name: `  ${of}, p50`, unit: 'ms', perRound: times[side][50] },
        { name: `  ${of}, p99`, unit: 'ms', perRound: times[side][99] },
      );
    }
  }
  return result;
}

function pathsOf(rig: WorkerRig, deviceIds: readonly string[]): Path[] {
  const { token } = rig.owner;
  const ofEach = (prefix: string, suffix = '', signedIn: { token?: string } = {}): HttpRequest[] =>
    deviceIds.map((deviceId) => ({ path: `${prefix}${deviceId}${suffix}`, expected: deviceId, ...signedIn }));
  const newest = deviceIds.at(-1) ?? '';
  const [device = '', list = '', status = ''] = requestVariants;
  return [
    {
      name: device,
      count: 3_000,
      target: { atLeast: 0.6 },
      requests: { service: ofEach('/api/v1/devices/', '', { token }), bare: ofEach('/device/') },
    },
    {
      name: list,
      count: 1_500,
      target: { atLeast: 0.5 },
      requests: {
        service: [{ path: `/api/v1/devices?page=1&size=${pageSize}`, token, expected: `"total":${deviceCount}` }],
        bare: [{ path: '/list', expected: newest.slice(0, 4) }],
      },
    },
    {
      name: status,
      count: 4_000,
      target: { atLeast: 0.55 },
      requests: { service: ofEach('/api/v1/devices/', '/status', { token }), bare: ofEach('/object/') },
    },
  ];
}
