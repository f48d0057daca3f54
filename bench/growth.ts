// B5: what pages and lookups cost where the database has a million devices, against the same where it has a thousand. Each
// size has a workerd and a D1 of its own; they take turns.
import { workerVars, type WorkerRig, type WorkerRigOptions } from '../rig/worker/worker-rig.ts';
import { formatCursor } from '../src/domain/pagination.ts';
import { loadHttp, type HttpRequest } from './parts/http-load.ts';
import type { BenchResult, Target } from './parts/results.ts';
import { ratiosOf, takeTurns, type BenchOptions, type Say } from './parts/rounds.ts';
import { readSeeded, seedDevices } from './parts/seeded-database.ts';

const smallest = 1_000;
const between = [10_000, 100_000];
const connections = 4;
const pageSize = 20;
const fullCount = 400;
const quickCount = 40;
const warmUpRounds = 1;
const target: Target = { atMost: 2 };

type Path = { name: string; requests: (rig: WorkerRig, size: number) => HttpRequest[] };

const paths: Path[] = [
  {
    name: 'device by id',
    requests: (rig) =>
      readSeeded(rig, 200).map(({ deviceId }) => ({ path: `/api/v1/devices/${deviceId}`, expected: deviceId })),
  },
  { name: 'first page with its total', requests: (_, size) => [page(`page=1`, `"total":${size}`)] },
  { name: 'page 50 with its total', requests: (_, size) => [page(`page=50`, `"total":${size}`)] },
  {
    name: 'a page after half of them',
    requests: (rig, size) => {
      const [half] = readSeeded(rig, 2);
      return [page(`after=${half === undefined ? '' : formatCursor(half)}`, `"total":${size}`)];
    },
  },
  {
    name: 'first page of online devices',
    requests: (_, size) => [page('page=1&status=1', `"total":${Math.floor((size + 2) / 3)}`)],
  },
  {
    name: 'first page of a product',
    requests: (rig, size) => [page(`page=1&productKey=${rig.productKey}`, `"total":${size}`)],
  },
];

export const growthVariants: readonly string[] = paths.map(({ name }) => name);

export const growthSizes = (scale: number): number[] => [smallest, ...between.filter((size) => size < scale), scale];

export function growthRig(size: number, say: Say): WorkerRigOptions {
  say(`B5 a database for ${describe(size)}`);
  // Without the scheduled job, which would find that the devices have no objects and are not online.
  return { vars: { LOG_INFO_SHARE: '0.1', LIMITS: workerVars.LIMITS, SCHEDULE_SECONDS: '86400' } };
}

export async function measureGrowth(rigs: readonly WorkerRig[], options: BenchOptions): Promise<BenchResult> {
  const { rounds, isQuick, variant, scale, say } = options;
  const sizes = growthSizes(scale);
  const result: BenchResult = {
    name: 'B5',
    title: `time of a request at ${describe(scale)}, against ${describe(smallest)}`,
    settings: [
      `one owner has all devices; ${connections} connections, the next request when an answer is complete`,
      'devices are written into D1 past the service, whose triggers count them; lists have 20 devices',
    ],
    measures: [],
    failures: [],
  };
  const rigOf = new Map<string, WorkerRig>();
  for (const [index, size] of sizes.entries()) {
    const rig = rigs[index];
    if (rig === undefined) throw new Error('B5 needs a Worker for each size');
    say(`B5 filling a database with ${describe(size)}`);
    await seedDevices(rig, size);
    rigOf.set(String(size), rig);
  }
  const sides = sizes.map(String);
  for (const { name, requests } of paths) {
    if (variant !== null && name !== variant) continue;
    const times: Record<string, number[]> = Object.fromEntries(sides.map((side) => [side, []]));
    const run = async (side: string): Promise<number> => {
      const rig = rigOf.get(side);
      if (rig === undefined) throw new Error(`no Worker for ${side}`);
      const { token } = rig.owner;
      const signedIn = requests(rig, Number(side)).map((request) => ({ ...request, token }));
      const count = isQuick ? quickCount : fullCount;
      const { perSecond, problems } = await loadHttp(rig.port, connections, signedIn, count);
      for (const problem of problems) result.failures.push(`${name}, ${side} devices: ${problem}`);
      return 1000 / perSecond;
    };
    for (let round = 0; round < (isQuick ? 0 : warmUpRounds); round += 1) for (const side of sides) await run(side);
    for (let round = 0; round < rounds; round += 1) {
      await takeTurns(sides, round, async (side) => {
        times[side]?.push(await run(side));
      });
      const shown = sides.map((side) => `${side}: ${times[side]?.at(-1)?.toFixed(2) ?? ''} ms`);
      say(`B5 ${name}, round ${round + 1}: ${shown.join(', ')}`);
    }
    const small = times[String(smallest)] ?? [];
    const large = times[String(scale)] ?? [];
    const judged = isQuick ? {} : { target };
    result.measures.push({ name, unit: 'x the time', perRound: ratiosOf(large, small), ...judged });
    for (const side of sides) {
      result.measures.push({ name: `  ${describe(Number(side))}`, unit: 'ms/request', perRound: times[side] ?? [] });
    }
  }
  return result;
}

function page(query: string, expected: string): HttpRequest {
  return { path: `/api/v1/devices?size=${pageSize}&${query}`, expected };
}

function describe(devices: number): string {
  return `${devices.toLocaleString('en').replaceAll(',', ' ')} devices`;
}
