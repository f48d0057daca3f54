// The process of the gateway, and what it tells a parent process.
import { runService } from '../../node-service/run-service.ts';
import { readConfig } from './config.ts';
import { startGateway } from './gateway.ts';

/** On top of the time to drain. */
const stopGraceMs = 10_000;

const { log } = await runService(readConfig(process.env), {
  noun: 'gateway',
  start: startGateway,
  stopWithinMs: ({ drainMs }) => drainMs + stopGraceMs,
});
log.info('ready');
if (process.connected) process.send?.({ type: 'ready' });
