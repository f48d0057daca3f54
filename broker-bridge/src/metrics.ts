// Metrics and their names. Counters are raised where things happen; gauges are read when Prometheus asks. No behaviour
// depends on them.
import { Counter, Gauge, Registry, collectDefaultMetrics } from 'prom-client';

export type Metrics = ReturnType<typeof createMetrics>;

export function createMetrics() {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry, prefix: 'bridge_' });
  const counter = <T extends string = never>(name: string, help: string, labelNames: T[] = []) =>
    new Counter<T>({ name: `bridge_${name}`, help, labelNames, registers });
  return {
    registry,
    messagesReceived: counter('messages_received_total', 'Messages from the broker, redeliveries included'),
    redeliveriesKnown: counter('redeliveries_known_total', 'Redeliveries of what this spool holds or held'),
    batches: counter('batches_total', 'Batches sent to the Worker, by outcome', ['outcome']),
    items: counter('items_total', 'Messages answered by the Worker, by result', ['result']),
    retries: counter('retries_total', 'Messages sent again, after a failed batch or an answer of "retry"'),
    messagesDropped: counter('messages_dropped_total', 'Messages dropped because their device sends too many'),
    deadLetters: counter('dead_letters_total', 'Messages that the Worker will never take'),
    reconnects: counter('reconnects_total', 'Connections lost or refused, by peer', ['peer']),
    commands: counter('commands_total', 'Commands from the Worker, by outcome', ['outcome']),
    lastWorkerStatus: new Gauge({
      name: 'bridge_last_worker_status',
      help: 'HTTP status of the last answer to a batch, 0 when there was none',
      registers,
    }),
    /** Read when Prometheus asks. */
    observe: (name: string, help: string, read: () => number | boolean): void => {
      const gauge: Gauge = new Gauge({
        name: `bridge_${name}`,
        help,
        registers,
        collect: () => gauge.set(Number(read())),
      });
    },
  };
}
