// The process of the Matter bridge: the fleet tells, the Matter nodes show, and presses go the other way. With health, metrics,
// and what it tells a parent process.
import './matter-environment.ts';
import { Environment } from '@matter/main';
import { serveHealth } from '../../node-service/health.ts';
import type { Log } from '../../node-service/log.ts';
import { createRegistry } from '../../node-service/metrics.ts';
import { runService } from '../../node-service/run-service.ts';
import { Bridges } from './bridges.ts';
import { readConfig, type MatterConfig } from './config.ts';
import { Fleet } from './fleet.ts';

/** A controller that does not answer holds up the end of its session by 15 s. */
const stopWithinMs = 20_000;

async function start(config: MatterConfig, log: Log) {
  const bridges = new Bridges(config, log);
  const fleet = new Fleet(config, bridges, log);
  // Where the switches of all nodes find it.
  Environment.default.set(Fleet, fleet);
  const { registry, observe } = createRegistry('matter_bridge_');
  observe('devices', 'devices that are offered', () => fleet.state().details.devices);
  observe('live', 'whether the relay is connected', () => fleet.state().isReady);
  const endHealth = await serveHealth(config.health, registry, log, () => fleet.state());
  await fleet.read();
  await bridges.start();
  fleet.follow();
  const stop = async (): Promise<void> => {
    endHealth();
    await fleet.stop();
    await bridges.stop();
  };
  return { fleet, stop };
}

const options = { noun: 'Matter bridge', start, stopWithinMs: () => stopWithinMs };
const { service, log, stop } = await runService(readConfig(process.env), options);
service.fleet.onRefused = (why) => {
  log.error('the service no longer accepts the API key', { alarm: true, why });
  stop(2);
};
log.info('ready');
if (process.connected) process.send?.({ type: 'ready' });
