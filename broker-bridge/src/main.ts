// Starts the bridge, joins its parts, and takes it down in the right order. Decisions belong to the parts.
import { Bridge } from './bridge.ts';
import { readConfig } from './config.ts';
import { createLog, describeError } from './log.ts';

const leaveWithinMs = 9500;

const config = readConfig(process.env);
if ('problems' in config) {
  console.error(`broker-bridge cannot start:\n${config.problems.map((problem) => `  - ${problem}`).join('\n')}`);
  process.exit(2);
}

const log = createLog(config.log);
// Whoever reads the log may go first: that must not end the bridge while it drains.
const ignoreLoss = (): void => undefined;
process.stdout.on('error', ignoreLoss);

const fail = (error: unknown): void => {
  log.error('unexpected error', {
    cause: describeError(error),
    stack: error instanceof Error ? error.stack : undefined,
  });
  process.exit(1);
};
process.on('uncaughtException', fail);
process.on('unhandledRejection', fail);

let bridge: Bridge | null = null;
let isLeaving = false;
const leave = (why: string): void => {
  // Somebody who asks twice does not want to wait.
  if (isLeaving) process.exit(1);
  isLeaving = true;
  log.info('leaving', { why });
  // Not started yet, perhaps waiting for another bridge: nothing is under way that must be ended in order.
  if (bridge === null) process.exit(0);
  setTimeout(() => {
    log.error('leaving takes too long: the rest stays in the spool');
    process.exit(1);
  }, leaveWithinMs).unref();
  bridge.stop().then(() => process.exit(0), fail);
};
// Before the start, which may take long: a signal without a handler does not end the first process of a container.
process.on('SIGTERM', () => leave('SIGTERM'));
process.on('SIGINT', () => leave('SIGINT'));
// A parent that started the bridge with a channel takes it with it when it dies.
process.on('disconnect', () => leave('the parent is gone'));

log.debug('starting');
const started = await Bridge.start(config, log).catch((error: unknown) => {
  log.error('the bridge cannot start', { cause: describeError(error) });
  process.exit(2);
});
bridge = started;

if (process.send !== undefined) {
  const report = (): void => {
    if (process.connected) process.send?.({ type: 'state', ...started.state }, undefined, undefined, ignoreLoss);
  };
  started.onStateChange(report);
  report();
}
