// Metrics for Prometheus, under the prefix of one service. Counters are raised when things happen; gauges are read when
// Prometheus asks. No behaviour depends on them.
import { collectDefaultMetrics, Counter, Gauge, Registry } from 'prom-client';

export function createRegistry(prefix: string) {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry, prefix });
  return {
    registry,
    counter: <T extends string = never>(name: string, help: string, labelNames: T[] = []) =>
      new Counter<T>({ name: `${prefix}${name}`, help, labelNames, registers }),
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
