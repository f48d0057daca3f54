// B5: what pages and lookups cost if the database has a million devices, against the same with a thousand. Each size has a
// workerd and a D1 of its own; they take turns.
import { workerVars, WorkerRig } from '../rig/worker/worker-rig.ts';
import { formatCursor } from '../src/domain/pagination.ts';
import { loadHttp, type HttpRequest } from './parts/http-load.ts';
import type { BenchResult } from './parts/results.ts';
import { compareSides, measuresOf, ratiosOf, type Benchmark, type BenchOptions } from './parts/rounds.ts';
import { readSeeded, seedDevices } from './parts/seeded-database.ts';

const smallSize = 1_000;
const connections = 4;
const pageSize = 20;
const fullCount = 400;
const quickCount = 40;

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

export const growth: Benchmark = { name: 'B5', variants: paths.map(({ name }) => name), measure };

async function measure(options: BenchOptions): Promise<BenchResult> {
  const { isQuick, variant, scale, say, keep } = options;
  const result: BenchResult = {
    title: `time of a request at ${scale} devices, against ${smallSize}`,
    settings: [
      `one owner has all devices; ${connections} connections, the next request when an answer is complete`,
      'devices are written into D1 past the service, whose triggers count them; lists have 20 devices',
    ],
    measures: [],
    failures: [],
  };
  const startWith = async (size: number): Promise<WorkerRig> => {
    say(`B5 filling a database with ${size} devices`);
    // Without the scheduled job, which would find that the devices have no objects and are not online.
    const vars = { LOG_INFO_SHARE: '0.1', LIMITS: workerVars.LIMITS, SCHEDULE_SECONDS: '86400' };
    const rig = await keep(WorkerRig.start({ vars }));
    await seedDevices(rig, size);
    return rig;
  };
  const sides = {
    small: { size: smallSize, rig: await startWith(smallSize) },
    large: { size: scale, rig: await startWith(scale) },
  };
  for (const { name, requests } of paths) {
    if (variant !== null && name !== variant) continue;
    const run = async (side: keyof typeof sides): Promise<number> => {
      const { size, rig } = sides[side];
      const signedIn = requests(rig, size).map((request) => ({ ...request, token: rig.owner.token }));
      const count = isQuick ? quickCount : fullCount;
      const { perSecond, problems } = await loadHttp(rig.port, connections, signedIn, count);
      result.failures.push(...problems.map((problem) => `${name}, ${size} devices: ${problem}`));
      return 1000 / perSecond;
    };
    const times = await compareSides(`B5 ${name}`, ['small', 'large'], options, run, (ms) => `${ms.toFixed(2)} ms`);
    const perRound = ratiosOf(times.large, times.small);
    result.measures.push(
      { name, unit: 'x the time', perRound, target: { atMost: 2 } },
      ...measuresOf(times, 'ms/request'),
    );
  }
  return result;
}

function page(query: string, expected: string): HttpRequest {
  return { path: `/api/v1/devices?size=${pageSize}&${query}`, expected };
}
