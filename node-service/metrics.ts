// Metrics for Prometheus, under the prefix of one service. Counters are raised when things happen; gauges are read when
// Prometheus asks. No behaviour depends on them.
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';

/** Gauges of the library whose names are those of counters. */
const misnamed = ['handles', 'requests', 'resources'].map((noun) => `nodejs_active_${noun}_total`);
/** Seconds: a Worker nearby answers within some milliseconds, and after a pause messages are minutes old. */
const buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120];

export function createRegistry(prefix: string) {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry, prefix });
  for (const name of misnamed) registry.removeSingleMetric(`${prefix}${name}`);
  return {
    registry,
    counter: <T extends string = never>(name: string, help: string, labelNames: T[] = []) =>
      new Counter<T>({ name: `${prefix}${name}`, help, labelNames, registers }),
    histogram: (name: string, help: string) => new Histogram({ name: `${prefix}${name}`, help, registers, buckets }),
    gauge: (name: string, help: string) => new Gauge({ name: `${prefix}${name}`, help, registers }),
    observe: (name: string, help: string, read: () => number | boolean): void => {
      const gauge: Gauge = new Gauge({
        name: `${prefix}${name}`,
        help,
        registers,
        collect: () => gauge.set(Number(read())),
      });
    },
  };
}
