// The process of the bridge: what is special about its end, and what it tells a parent process.
import { describeError } from '../../node-service/log.ts';
import { runService } from '../../node-service/run-service.ts';
import { Bridge } from './bridge/bridge.ts';
import { readConfig } from './config.ts';

/** Service managers and containers kill after 10 s; what is left then stays in the spool. */
const stopWithinMs = 9500;

const { service, log, stop } = await runService(readConfig(process.env), {
  noun: 'bridge',
  start: (config, ownLog) => Bridge.start(config, ownLog),
  stopWithinMs: () => stopWithinMs,
});

service.onRefused = (remedy) => {
  log.error('the Worker does not let this bridge in', { alarm: true, remedy });
  stop(2);
};

if (process.send !== undefined) {
  const noteUnsent = (error: Error | null): void => {
    if (error !== null) log.debug('the parent does not receive the state', { cause: describeError(error) });
  };
  const report = (): void => {
    if (process.connected) process.send?.({ type: 'state', ...service.state }, undefined, undefined, noteUnsent);
  };
  service.onStateChange = report;
  report();
}
