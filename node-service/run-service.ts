// The process around a Node service: configuration, signals, exit codes and the end of its parent process.
// Exit code 2: an operator has to change something; 1: a fault of the program, or a second signal.
import { createLog, describeError, type Log, type LogOptions } from './log.ts';

type Options<Config, Running> = {
  noun: string;
  start: (config: Config, log: Log) => Promise<Running>;
  /** How long `stop` may take before the process ends all the same. */
  stopWithinMs: (config: Config) => number;
};

/** Resolves when the service has started; otherwise the process ends. */
export async function runService<Config extends { log: LogOptions }, Running extends { stop: () => Promise<void> }>(
  config: Config | { problems: string[] },
  { noun, start, stopWithinMs }: Options<Config, Running>,
): Promise<{ service: Running; log: Log; stop: (exitCode: number) => void }> {
  if ('problems' in config) {
    console.error(`the ${noun} cannot start:\n${config.problems.map((problem) => `  - ${problem}`).join('\n')}`);
    process.exit(2);
  }
  const log = createLog(config.log);
  // A reader of the log that goes first must not end the service while it drains.
  process.stdout.on('error', () => undefined);

  const fail = (error: unknown): void => {
    const stack = error instanceof Error ? error.stack : undefined;
    log.error('unexpected error', { cause: describeError(error), stack });
    process.exit(1);
  };
  process.on('uncaughtException', fail);
  process.on('unhandledRejection', fail);

  let service: Running | null = null;
  const stop = (exitCode: number): void => {
    // Not started yet, perhaps waiting for another process: there is nothing to stop in order.
    if (service === null) process.exit(exitCode);
    service.stop().then(() => process.exit(exitCode), fail);
  };
  let isLeaving = false;
  const leave = (why: string): void => {
    // A second signal ends it at once.
    if (isLeaving) process.exit(1);
    isLeaving = true;
    log.info('leaving', { why });
    setTimeout(() => {
      log.error('leaving takes too long: what is left is cut');
      process.exit(1);
    }, stopWithinMs(config)).unref();
    stop(0);
  };
  // Before the start, which may take long: a signal without a handler does not end the first process of a container.
  process.on('SIGTERM', () => leave('SIGTERM'));
  process.on('SIGINT', () => leave('SIGINT'));
  // A service with an IPC channel ends with its parent.
  process.on('disconnect', () => leave('the parent is gone'));

  log.debug('starting');
  service = await start(config, log).catch((error: unknown) => {
    log.error(`the ${noun} cannot start`, { cause: describeError(error) });
    process.exit(2);
  });
  return { service, log, stop };
}
