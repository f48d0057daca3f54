// `npm run check`: everything about the sources that a program can judge, as many steps at once as there are cores. Prints a
// line for each step and the whole output of a failed one. Changes nothing.
import { exec } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { promisify } from 'node:util';
import PQueue from 'p-queue';
import { readCommandLine } from '../rig/command-line.ts';
import installMatterPackages from '../rig/services/matter-packages.ts';

const usage = `Usage: npm run check

  Types, lint, format, imports, unused code, weight and citations. Changes nothing but the
  packages of matter-bridge, which it installs.`;

const rooms = 'src broker-bridge mqtt-gateway matter-bridge node-service client console dev serve rig test bench';

/** Longest first. */
const steps = [
  { name: 'types', command: 'tsc -b' },
  { name: 'lint', command: 'oxlint' },
  { name: 'format', command: 'prettier --check --log-level warn .' },
  { name: 'worker types', command: 'wrangler types src/worker-env.d.ts --include-runtime=false --check' },
  { name: 'imports', command: `depcruise ${rooms} --config .dependency-cruiser.cjs` },
  { name: 'unused', command: 'knip' },
  { name: 'weight', command: 'node dev/weight.ts' },
  { name: 'citations', command: 'node dev/check-citations.ts' },
];

readCommandLine({ name: 'npm run check', usage, options: {} }, () => undefined);

// For its types.
installMatterPackages();

const failed: string[] = [];
async function run({ name, command }: (typeof steps)[number]): Promise<void> {
  const startedAtMs = performance.now();
  const failure = await promisify(exec)(`(${command}) 2>&1`, { maxBuffer: Infinity }).then(
    () => undefined,
    (error: unknown) => (error as { stdout: string }).stdout,
  );
  const seconds = ((performance.now() - startedAtMs) / 1000).toFixed(1);
  console.log(`${failure === undefined ? 'ok    ' : 'FAILED'} ${name} (${seconds} s)`);
  if (failure === undefined) return;
  console.log(`$ ${command}\n${failure}`);
  failed.push(name);
}
await new PQueue({ concurrency: availableParallelism() }).addAll(steps.map((step) => () => run(step)));
if (failed.length > 0) {
  console.log(`Failed: ${failed.join(', ')}. Mend what is printed above; \`npm run format\` mends the format.`);
  process.exitCode = 1;
}
