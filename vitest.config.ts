// Test projects: unit (plain Node), worker and fuzz (inside workerd), all others in plain Node with real processes and sockets.
// `npm test` and `npm run test:all` in package.json say which of them they run.
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { cloudflareTest, readD1Migrations } from '@cloudflare/vitest-plugin';
import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import RunSummary from './rig/run-summary.ts';

const migrations = await readD1Migrations(fileURLToPath(new URL('migrations', import.meta.url)));

const secrets = {
  JWT_SECRETS: 'test:access-token-secret-of-the-worker-tests,old:access-token-secret-before-the-last-one',
  SEALING_SECRETS: 'sealing-secret-of-the-worker-tests-only',
  VAPID_KEY: 'q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94',
  MESSAGING_SECRETS: 'messaging-secret-of-the-worker-tests,messaging-secret-before-the-last-one',
};
// Where wrangler looks for the secrets that wrangler.toml requires, without a .dev.vars.
Object.assign(process.env, secrets);

type ProjectOptions = NonNullable<TestProjectInlineConfiguration['test']>;

/** How many inputs the fuzzers send in all, and the seed of every generated test, which is printed with a failure. */
const fuzzing = {
  fuzzRuns: Number(process.env['FUZZ_RUNS'] ?? 8_000),
  fuzzSeed: Number(process.env['FUZZ_SEED'] ?? Date.now() % 2 ** 31),
};

const cores = availableParallelism();

/** Files that compute: as many as there are cores. */
const computing = { maxWorkers: cores, sequence: { groupOrder: 0 } };

/** Files that start processes and mostly wait for them, after the others. */
const withProcesses = { maxWorkers: 3 * cores, sequence: { groupOrder: 1 } };

/** Files that take all the time of the processors: last and few, so that they hold up no other file. */
const withFloods = { maxWorkers: cores + 1, sequence: { groupOrder: 2 } };

/** Within a group, projects with the longest files come first: none of these runs on alone at the end. */
const projectOrder = [
  'unit',
  'worker',
  'fuzz',
  'brokers',
  'client',
  'ota',
  'matter',
  'system',
  'bridge',
  'gateway',
  'conformance',
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ project }: TestSpecification) =>
      projectOrder.findIndex((name) => project.name === name || project.name.startsWith(`${name}-`));
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}

/** The files of `test/{folder}`. */
const project = (name: string, options: ProjectOptions = {}, folder = name) => ({
  test: {
    name,
    include: [`test/${folder}/**/*.test.ts`],
    setupFiles: ['rig/patient-waits.ts'],
    provide: fuzzing,
    // Ends what hangs. What is slow on a busy machine may take ten times as long as alone.
    testTimeout: 480_000,
    hookTimeout: 480_000,
    // As long as `vi.waitFor` (patient-waits.ts): a second is too soon on a busy machine.
    expect: { poll: { timeout: 90_000 } },
    ...withProcesses,
    ...options,
  },
});

const inWorkerd = (name: string) => ({
  plugins: [
    cloudflareTest({
      main: './src/index.ts',
      wrangler: { configPath: './wrangler.toml' },
      miniflare: {
        bindings: {
          // Over a .dev.vars.
          ...secrets,
          BROKER: 'bridge',
          LOG_REJECTED_TEXT: 'false',
          TEST_MIGRATIONS: migrations,
          BRIDGE_SECRETS: 'bridge-secret-of-the-worker-tests-only',
          BRIDGE_MQTT_PASSWORDS: 'bridge-mqtt-password-of-the-worker-tests',
          BROKER_HOOK_SECRETS: 'broker-hook-secret-of-the-worker-tests',
          GATEWAY_SECRETS: 'gateway-secret-of-the-worker-tests-only',
          OPERATOR_SECRETS: 'operator-secret-of-the-worker-tests-only',
          MQTT_HOST: 'broker.test',
          BROKER_REPORTS_CONNECTIONS: 'true',
          CORS_ORIGINS: 'https://app.test',
          RATE_LIMITS: 'relaxed',
          LOG_INFO_SHARE: '1',
          LIMITS: 'fleetLeaseSeconds=60',
        },
      },
    }),
  ],
  ...project(name, {
    setupFiles: ['rig/patient-waits.ts', 'test/worker/rig/setup.ts'],
    globalSetup: ['rig/reference-documents.ts', 'rig/push-service.ts'],
    // A workerd takes 5 s to start: one is kept for many files, and setup.ts empties it.
    isolate: false,
    ...computing,
  }),
});

const conformance = { globalSetup: ['rig/services/conformance-service.ts'] };

export default defineConfig({
  test: {
    // The Worker writes a line a request.
    silent: 'passed-only',
    globalSetup: ['rig/temp-root.ts'],
    reporters: ['default', new RunSummary()],
    sequence: { sequencer: LongestFirst },
    projects: [
      project('unit', computing),
      inWorkerd('worker'),
      inWorkerd('fuzz'),
      project('bridge'),
      project('gateway'),
      // The contract once for each way in: broker and bridge, the device's own path beside them, the gateway without them.
      project('conformance', conformance),
      project('conformance-direct', conformance, 'conformance'),
      project('conformance-gateway', conformance, 'conformance'),
      project('system'),
      project('brokers'),
      project('client'),
      project('ota'),
      project('matter', { globalSetup: ['rig/services/matter-packages.ts'] }),
      project('console', { globalSetup: ['rig/services/console-service.ts'] }),
      project('attacks', { ...withFloods, maxConcurrency: 4 }),
      project('faults', withFloods),
    ],
  },
});
