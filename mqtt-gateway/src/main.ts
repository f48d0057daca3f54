// The process around the gateway: configuration, signals, exit codes and the channel to a parent process.
import { createLog, describeError } from '../../node-service/log.ts';
import { readConfig } from './config.ts';
import { Gateway } from './gateway.ts';

/** Above the time to drain. */
const stopGraceMs = 10_000;

const config = readConfig(process.env);
if ('problems' in config) {
  console.error(`mqtt-gateway cannot start:\n${config.problems.map((problem) => `  - ${problem}`).join('\n')}`);
  process.exit(2);
}

const log = createLog(config.log);
// A reader of the log that goes first must not end the gateway while it drains.
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

let gateway: Gateway | null = null;
let isLeaving = false;
const leave = (why: string): void => {
  // A second signal ends it at once.
  if (isLeaving) process.exit(1);
  isLeaving = true;
  log.info('leaving', { why });
  if (gateway === null) process.exit(0);
  setTimeout(() => {
    log.error('leaving takes too long: the connections that are left are cut');
    process.exit(1);
  }, config.drainMs + stopGraceMs).unref();
  gateway.stop().then(() => process.exit(0), fail);
};
process.on('SIGTERM', () => leave('SIGTERM'));
process.on('SIGINT', () => leave('SIGINT'));
// A gateway with an IPC channel ends with its parent.
process.on('disconnect', () => leave('the parent is gone'));

gateway = await Gateway.start(config, log).catch((error: unknown) => {
  log.error('the gateway cannot start', { cause: describeError(error) });
  process.exit(2);
});
log.info('ready');
if (process.connected) process.send?.({ type: 'ready' });
