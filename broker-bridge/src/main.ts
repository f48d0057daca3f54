// The process around the bridge: configuration, signals, exit codes and the channel to a parent process.
import { Bridge } from './bridge/bridge.ts';
import { readConfig } from './config.ts';
import { createLog, describeError } from '../../node-service/log.ts';

const stopWithinMs = 9500;

const config = readConfig(process.env);
if ('problems' in config) {
  console.error(`broker-bridge cannot start:\n${config.problems.map((problem) => `  - ${problem}`).join('\n')}`);
  process.exit(2);
}

const log = createLog(config.log);
// A reader of the log that goes first must not end the bridge while it drains.
process.stdout.on('error', () => undefined);

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
  // A second signal ends it at once.
  if (isLeaving) process.exit(1);
  isLeaving = true;
  log.info('leaving', { why });
  // Not started yet, perhaps waiting for another bridge: there is nothing to stop in order.
  if (bridge === null) process.exit(0);
  setTimeout(() => {
    log.error('leaving takes too long: the rest stays in the spool');
    process.exit(1);
  }, stopWithinMs).unref();
  bridge.stop().then(() => process.exit(0), fail);
};
// Before the start, which may take long: a signal without a handler does not end the first process of a container.
process.on('SIGTERM', () => leave('SIGTERM'));
process.on('SIGINT', () => leave('SIGINT'));
// A bridge with an IPC channel ends with its parent.
process.on('disconnect', () => leave('the parent is gone'));

log.debug('starting');
const started = await Bridge.start(config, log).catch((error: unknown) => {
  log.error('the bridge cannot start', { cause: describeError(error) });
  process.exit(2);
});
bridge = started;
started.onRefused((remedy) => {
  log.error('the Worker does not let this bridge in', { alarm: true, remedy });
  started.stop().then(() => process.exit(2), fail);
});

if (process.send !== undefined) {
  const noteUnsent = (error: Error | null): void => {
    if (error !== null) log.debug('the parent does not receive the state', { cause: describeError(error) });
  };
  const report = (): void => {
    if (process.connected) process.send?.({ type: 'state', ...started.state }, undefined, undefined, noteUnsent);
  };
  started.onStateChange(report);
  report();
}
