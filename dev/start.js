// `npm start` on any Node: one that reads TypeScript goes on to local-service.ts, an older one says what to do. Therefore plain
// JavaScript.
import process from 'node:process';

if (process.features.typescript) {
  await import('./local/service.ts');
} else {
  process.stderr.write(
    `Node ${process.versions.node} cannot run TypeScript: use "npm start", which brings its own Node, or install Node 24\n`,
  );
  process.exitCode = 1;
}
