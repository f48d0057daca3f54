// Starts the bridge. Plain JavaScript, so that a Node that is too old says so.
const neededNode = 24;

if (Number.parseInt(process.versions.node, 10) >= neededNode) await import('./src/main.ts');
else {
  process.stderr.write(`the bridge needs Node ${neededNode} or newer, and this is Node ${process.versions.node}\n`);
  process.exitCode = 2;
}
