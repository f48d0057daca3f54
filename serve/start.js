// `npm run serve` on any Node: one that reads TypeScript goes on to main.ts, an older one says what to do. Therefore plain JavaScript.
import process from 'node:process';

if (process.features.typescript) {
  await import('./main.ts');
} else {
  process.stderr.write(
    `Node ${process.versions.node} cannot run TypeScript: use "npm run serve", which brings its own Node, or install Node 24\n`,
  );
  process.exitCode = 2;
}
