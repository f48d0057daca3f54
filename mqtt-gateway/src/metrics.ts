// Metrics and their names. Counters are raised where things happen; gauges are read when Prometheus asks. No behaviour
// depends on them.
import { Counter, Gauge, Registry, collectDefaultMetrics } from 'prom-client';

export function createMetrics() {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry, prefix: 'gateway_' });
  const counter = <T extends string = never>(name: string, help: string, labelNames: T[] = []) =>
    new Counter<T>({ name: `gateway_${name}`, help, labelNames, registers });
  return {
    registry,
    accepted: counter('connections_accepted_total', 'Connections taken, by listener', ['listener']),
    refused: counter('connections_refused_total', 'Connections closed at once, by limit', ['limit']),
    closed: counter('connections_closed_total', 'Connections that have ended, by what ended them', ['by']),
    bytesUp: counter('bytes_up_total', 'Bytes carried from devices to the Worker'),
    bytesDown: counter('bytes_down_total', 'Bytes carried from the Worker to devices'),
    workerRefusals: counter('worker_refusals_total', 'WebSockets that the Worker refused, by HTTP status', ['status']),
    /** Read when Prometheus asks. */
    observe: (name: string, help: string, read: () => number): void => {
      const gauge: Gauge = new Gauge({
        name: `gateway_${name}`,
        help,
        registers,
        collect: () => gauge.set(read()),
      });
    },
  };
}
