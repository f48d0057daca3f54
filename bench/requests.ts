// B1: what the service adds to its own D1 statements and object calls. Three signed-in reads, each against a bare Hono
// Worker in the same workerd with the same statements or object call.
import { findDevice } from '../src/db/devices/devices.ts';
import { listDevices } from '../src/db/devices/lists.ts';
import { WorkerRig, workerVars } from '../rig/worker/worker-rig.ts';
import { loadHttp, type HttpRequest } from './parts/http-load.ts';
import { makeNeighbour } from './parts/neighbours.ts';
import { recordStatements } from './parts/recorded-statements.ts';
import type { BenchResult } from './parts/results.ts';
import { showTrouble } from './parts/rig.ts';
import {
  compareSides,
  measuresOf,
  perSecondText,
  ratiosOf,
  type Benchmark,
  type BenchOptions,
} from './parts/rounds.ts';

type Side = 'service' | 'bare';
type Path = { name: string; count: number; atLeast: number } & Record<Side, HttpRequest[]>;

const connections = 8;
const deviceCount = 100;
const pageSize = 20;
const quickShare = 0.1;
/** The first id of a fresh database. */
const firstUserId = 1;

/** LOG_INFO_SHARE is that of wrangler.toml. The scheduled job does not run, because it would fall into some rounds only. */
const vars = { LOG_INFO_SHARE: '0.1', LIMITS: workerVars.LIMITS, SCHEDULE_SECONDS: '86400' };

const names = { device: 'device by id', list: 'list of 20 with its total', status: 'status view' };

export const requests: Benchmark = { name: 'B1', variants: Object.values(names), measure };

async function measure(options: BenchOptions): Promise<BenchResult> {
  const page = { page: 1, size: pageSize };
  const filter = { userId: firstUserId, role: undefined, productKey: undefined, statusCode: undefined };
  const recorded = {
    device: await recordStatements((db) => findDevice(db, '')),
    list: await recordStatements((db) => listDevices(db, filter, page, undefined)),
  };
  const bare = await makeNeighbour('bare', { OBJECT: 'BareObject' }, { STATEMENTS: JSON.stringify(recorded) });
  const onWorkerLine = (line: string): void => showTrouble('Worker', line);
  const rig = await options.keep(WorkerRig.start({ vars, neighbours: [bare], onWorkerLine }));
  const devices = await rig.activateMany(deviceCount);
  const ports: Record<Side, number> = { service: rig.port, bare: bare.port };
  const served = Object.entries({ ...workerVars, ...vars }).map(([name, value]) => `${name}=${value}`);
  const result: BenchResult = {
    title:
      'signed-in reads, against the same D1 statements or one object call in a bare Hono Worker of the same workerd',
    settings: [
      `${connections} connections, the next request when an answer is complete; ${deviceCount} devices in turn`,
      `service: a bearer token, ${served.join(', ')}; bare: no token, no checks, the rows as they are`,
    ],
    measures: [],
    failures: [],
  };
  const ids = devices.map(({ deviceId }) => deviceId);
  for (const path of pathsOf(rig.owner.token, ids)) {
    const { name, atLeast } = path;
    if (options.variant !== null && name !== options.variant) continue;
    const count = options.isQuick ? path.count * quickShare : path.count;
    const run = async (side: Side): Promise<number> => {
      const { perSecond, problems } = await loadHttp(ports[side], connections, path[side], count);
      result.failures.push(...problems.map((problem) => `${name}, ${side}: ${problem}`));
      return perSecond;
    };
    const rates = await compareSides(`B1 ${name}`, ['service', 'bare'], options, run, perSecondText);
    result.measures.push(
      { name, unit: 'x bare', perRound: ratiosOf(rates.service, rates.bare), target: { atLeast } },
      ...measuresOf(rates, 'requests/s'),
    );
  }
  return result;
}

function pathsOf(token: string, deviceIds: readonly string[]): Path[] {
  const ofEach = (pathOf: (deviceId: string) => string, signedIn: { token?: string } = {}): HttpRequest[] =>
    deviceIds.map((deviceId) => ({ path: pathOf(deviceId), expected: deviceId, ...signedIn }));
  const newest = deviceIds.at(-1) ?? '';
  return [
    {
      name: names.device,
      count: 3_000,
      atLeast: 0.6,
      service: ofEach((id) => `/api/v1/devices/${id}`, { token }),
      bare: ofEach((id) => `/device/${id}`),
    },
    {
      name: names.list,
      count: 1_500,
      atLeast: 0.5,
      service: [{ path: `/api/v1/devices?page=1&size=${pageSize}`, token, expected: `"total":${deviceCount}` }],
      bare: [{ path: '/list', expected: newest.slice(0, 4) }],
    },
    {
      name: names.status,
      count: 4_000,
      atLeast: 0.55,
      service: ofEach((id) => `/api/v1/devices/${id}/status`, { token }),
      bare: ofEach((id) => `/object/${id}`),
    },
  ];
}
