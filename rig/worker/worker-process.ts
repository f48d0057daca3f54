// The Worker as a process: the bundle that `wrangler deploy` would upload, in workerd through Miniflare. It has wrangler.toml's
// bindings, D1 and Durable Objects on disk, and all migrations. WORKER_OPTIONS holds its options as JSON; the environment may override
// any var of wrangler.toml, and how often the schedule runs (SCHEDULE_SECONDS). Not `wrangler dev`, whose proxy makes every request
// several times slower. Must not build (built-worker.ts), choose ports or make secrets. Must not use Miniflare's objects for bindings
// and Workers. They block this process until workerd answers, and workerd may wait for this process to read its log.
import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  convertV4MiniflareOptions,
  Miniflare,
  NoOpLog,
  type V4ModuleDefinition,
  type V4WorkerOptions,
} from 'miniflare';
import {
  unstable_getMiniflareWorkerOptions as getWorkerOptions,
  unstable_readConfig as readWranglerConfig,
} from 'wrangler';
import { runDetached } from '../../node-service/detached.ts';
import { applyMigrations, createMigrator, migratorName } from './migrations.ts';
import { createJsonLog, isLogLevel, requireSetting, runPart, type RunningPart } from './part-process.ts';
import { bindRateLimits, rateLimitCounter } from './rate-limits.ts';

/** The place of a Worker, and what workerd runs beside it. */
export type WorkerOptions = {
  buildDir: string;
  /** Holds D1 and Durable Objects, in the folder `worker`. */
  stateDir: string;
  host: string;
  port: number;
  /** Vars and secrets, whether wrangler.toml names them or not. */
  bindings: Record<string, string>;
  /** In the place of those of wrangler.toml, by name: uses in a period. */
  rateLimits?: Record<string, number>;
  /** Other Workers in the same workerd. */
  neighbours?: Neighbour[];
  /** A module of our own that is the entry in place of the built one, which it imports as `./index.js`. */
  frontModule?: string | undefined;
  /** In place of /etc/hosts. Needs Linux and a user who may make namespaces. */
  hostsFile?: string | undefined;
};

/** What the built Worker is compared with: it shares workerd and the database, and has objects of its own. */
export type Neighbour = {
  name: string;
  modulePath: string;
  port: number;
  /** Classes of its objects by the binding. */
  objects: Record<string, string>;
  bindings: Record<string, string>;
};

const root = fileURLToPath(new URL('../..', import.meta.url));
const assetsName = 'latchwork-assets';
/** A job that takes longer is given up by this process; workerd goes on with it. */
const scheduleTimeoutMs = 60_000;
/** Every minute in production (wrangler.toml, triggers). */
const scheduleEveryMs = Number(process.env['SCHEDULE_SECONDS'] ?? 60) * 1000;
/** Connects to public addresses alone, whatever name they have. Miniflare's own network has no such rule. */
const publicNetwork: V4WorkerOptions = {
  name: 'latchwork-public-network',
  modules: true,
  script: 'export default { fetch: (request, { INTERNET }) => INTERNET.fetch(request) };',
  serviceBindings: { INTERNET: { network: { allow: ['public'], deny: [], tlsOptions: { trustBrowserCas: true } } } },
};
const moduleTypes = {
  '.wasm': 'CompiledWasm',
  '.bin': 'Data',
  '.txt': 'Text',
  '.html': 'Text',
  '.sql': 'Text',
} as const;
const log = createJsonLog('worker');

// The parent disconnects rather than send a signal, on which Miniflare's own hook kills workerd at once.
runPart(log, () => runWorker(JSON.parse(requireSetting('WORKER_OPTIONS')) as WorkerOptions));

async function runWorker(options: WorkerOptions): Promise<RunningPart> {
  const { buildDir, stateDir, host, port, neighbours = [] } = options;
  const configPath = join(root, 'wrangler.toml');
  const { workerOptions, main } = getWorkerOptions(configPath);
  const { vars } = readWranglerConfig({ config: configPath }, { hideWarnings: true }) as {
    vars: Record<string, unknown>;
  };
  const assets = workerOptions.assets as { binding: string };
  const bindings = { ...overrideVars(vars), ...options.bindings };
  // Rules say how a bundler reads files; the bundle has its modules already, and Miniflare refuses both together.
  const foreign = ['modulesRules', 'assets', 'ratelimits'];
  const worker = {
    ...Object.fromEntries(Object.entries(workerOptions).filter(([name]) => !foreign.includes(name))),
    name: 'latchwork',
    modules: listModules(buildDir, basename(main ?? 'index.ts').replace(/\.\w+$/, '.js'), options.frontModule),
    modulesRoot: buildDir,
    // The vars of the file alone: a .dev.vars is for `wrangler dev`.
    bindings,
    ...(bindings['WEBHOOKS_MAY_BE_LOCAL'] !== 'true' && { outboundService: publicNetwork.name }),
    // Straight to the Worker: Miniflare's own entry in front of it takes half of the requests a second.
    unsafeDirectSockets: [{ host, port }],
    serviceBindings: {
      ...bindRateLimits((workerOptions as V4WorkerOptions).ratelimits, options.rateLimits),
      [assets.binding]: assetsName,
    },
  } as V4WorkerOptions;
  // Static files are a Worker of their own here, because Miniflare puts its router in front of any that has some.
  const assetsWorker = {
    name: assetsName,
    modules: true,
    script: 'export default { fetch: () => new Response(null, { status: 404 }) };',
    assets: { directory: join(buildDir, 'public') },
  } as V4WorkerOptions;
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      host: '127.0.0.1',
      port: 0,
      log: new NoOpLog(),
      handleStructuredLogs: passOn,
      unsafeHandleRuntimeRestart: () => log('warn', 'runtime_restarted'),
      // Miniflare would ask a server of Cloudflare's for sample geodata.
      cf: false,
      logRequests: false,
      telemetry: { enabled: false },
      resourcePersistencePath: join(stateDir, 'worker', 'v3'),
      unsafeTriggerHandlers: true,
      workers: [
        worker,
        assetsWorker,
        rateLimitCounter,
        publicNetwork,
        ...neighbours.map((neighbour) => neighbourWorker(neighbour, workerOptions as V4WorkerOptions)),
        createMigrator(join(root, 'migrations'), workerOptions.d1Databases as V4WorkerOptions['d1Databases']),
      ],
    }),
  );
  try {
    await miniflare.ready;
    const url = await miniflare.unsafeGetDirectURL();
    await applyMigrations(await miniflare.unsafeGetDirectURL(migratorName));
    const stopSchedule = startSchedule(miniflare);
    return {
      ready: { url: url.href },
      stop: () => {
        stopSchedule();
        return miniflare.dispose();
      },
    };
  } catch (error) {
    await miniflare.dispose();
    throw error;
  }
}

/** The Worker logs JSON lines through `console`; workerd and libraries log text. */
function passOn({ level, message }: { level: string; message: string }): void {
  // workerd's own view of a client that sends malformed chunks; the Worker logs what it answers.
  if (/kj\/compat\/http\.c\+\+.*failed: invalid HTTP/.test(message)) {
    log('info', 'malformed_http', { message: message.split('\n')[0] });
    return;
  }
  const fields = message.startsWith('{') ? parseLine(message) : { message };
  log(isLogLevel(level) ? level : 'info', typeof fields['event'] === 'string' ? fields['event'] : 'runtime', fields);
}

/** A line that was cut off stays text. */
function parseLine(message: string): Record<string, unknown> {
  try {
    return JSON.parse(message) as Record<string, unknown>;
  } catch (error) {
    return { message, unreadable: String(error) };
  }
}

/** Cron triggers do not fire in Miniflare by themselves. A run that is still going is not joined by another. */
function startSchedule(miniflare: Miniflare): () => void {
  let isRunning = false;
  const run = async (): Promise<void> => {
    isRunning = true;
    const outcome = await runSchedule(miniflare).catch((error: unknown) => ({ failure: String(error) }));
    isRunning = false;
    log('failure' in outcome ? 'warn' : 'info', 'schedule_ran', outcome);
  };
  const timer = setInterval(() => {
    if (!isRunning) runDetached(run());
  }, scheduleEveryMs);
  return () => clearInterval(timer);
}

async function runSchedule(miniflare: Miniflare): Promise<{ tookMs: number } | { failure: string }> {
  const startedAtMs = performance.now();
  const response = await miniflare.dispatchFetch('http://localhost/cdn-cgi/local/scheduled?cron=*+*+*+*+*', {
    signal: AbortSignal.timeout(scheduleTimeoutMs),
  });
  const outcome = await response.text();
  return response.ok ? { tookMs: Math.round(performance.now() - startedAtMs) } : { failure: outcome };
}

function overrideVars(vars: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(vars).map(([name, value]) => [name, process.env[name] ?? value]));
}

function neighbourWorker(
  { name, modulePath, port, objects, bindings }: Neighbour,
  { compatibilityDate, d1Databases }: V4WorkerOptions,
): V4WorkerOptions {
  const classes = Object.entries(objects).map(([binding, className]) => [binding, { className, useSQLite: true }]);
  return {
    name,
    modules: [{ type: 'ESModule', path: modulePath }],
    modulesRoot: dirname(modulePath),
    bindings,
    durableObjects: Object.fromEntries(classes) as NonNullable<V4WorkerOptions['durableObjects']>,
    ...(compatibilityDate !== undefined && { compatibilityDate }),
    ...(d1Databases !== undefined && { d1Databases }),
    unsafeDirectSockets: [{ host: '127.0.0.1', port }],
  };
}

/** The entry first, then what wrangler put beside it (imports that are not JavaScript). */
function listModules(buildDir: string, entry: string, frontModule: string | undefined): V4ModuleDefinition[] {
  const others = readdirSync(buildDir).flatMap((name): V4ModuleDefinition[] => {
    const type = Object.entries(moduleTypes).find(([ending]) => name.endsWith(ending))?.[1];
    return type === undefined ? [] : [{ type, path: join(buildDir, name) }];
  });
  const front: V4ModuleDefinition[] =
    frontModule === undefined
      ? []
      : [{ type: 'ESModule', path: join(buildDir, 'front.js'), contents: readFileSync(frontModule, 'utf8') }];
  return [...front, { type: 'ESModule', path: join(buildDir, entry) }, ...others];
}
