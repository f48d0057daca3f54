// The process of the bridge: what is special about its end, and what it tells a parent process.
import { runService } from '../../node-service/run-service.ts';
import { startBridge } from './bridge/bridge.ts';
import { readConfig } from './config.ts';

/** Service managers and containers kill after 10 s; what is left then stays in the spool. */
const stopWithinMs = 9500;

const { service, log, stop } = await runService(readConfig(process.env), {
  noun: 'bridge',
  start: startBridge,
  stopWithinMs: () => stopWithinMs,
});

service.onRefused = (remedy) => {
  log.error('the Worker does not let this bridge in', { alarm: true, remedy });
  stop(2);
};

if (process.send !== undefined) {
  const report = (): void => {
    // With a listener of its own: a parent that has gone ends this process in order.
    if (process.connected) process.send?.({ type: 'state', ...service.state() }, undefined, undefined, () => undefined);
  };
  service.onStateChange = report;
  report();
}
