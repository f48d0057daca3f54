// Metrics and their names. Counters are raised where things happen; gauges are read when Prometheus asks. No behaviour
// depends on them.
import { Counter, Gauge, Registry, collectDefaultMetrics } from 'prom-client';

export type Readings = {
  spoolDepth: () => number;
  spoolBytes: () => number;
  spoolIsFull: () => boolean;
  oldestAgeSeconds: () => number;
  unacknowledged: () => number;
  unansweredCommands: () => number;
  brokerConnected: () => boolean;
  linkConnected: () => boolean;
  isActive: () => boolean;
};

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
    deadLetters: counter('dead_letters_total', 'Messages that the Worker will never take'),
    reconnects: counter('reconnects_total', 'Connections lost or refused, by peer', ['peer']),
    commands: counter('commands_total', 'Commands from the Worker, by outcome', ['outcome']),
    lastWorkerStatus: new Gauge({
      name: 'bridge_last_worker_status',
      help: 'HTTP status of the last answer to a batch, 0 when there was none',
      registers,
    }),
    observe(readings: Readings): void {
      const gauge = (name: string, help: string, read: () => number | boolean) =>
        new Gauge({
          name: `bridge_${name}`,
          help,
          registers,
          collect() {
            this.set(Number(read()));
          },
        });
      gauge('spool_depth', 'Messages on the disk that the Worker has not answered for', readings.spoolDepth);
      gauge('spool_bytes', 'Bytes of these messages, which SPOOL_MAX_BYTES limits', readings.spoolBytes);
      gauge('spool_full', '1 while the spool takes no messages', readings.spoolIsFull);
      gauge('spool_oldest_age_seconds', 'Age of the oldest message in the spool', readings.oldestAgeSeconds);
      gauge('unacknowledged', 'Messages from the broker that are not on the disk yet', readings.unacknowledged);
      gauge('commands_unanswered', 'Commands that the broker has not acknowledged yet', readings.unansweredCommands);
      gauge('broker_connected', '1 while connected to the broker', readings.brokerConnected);
      gauge('link_connected', '1 while the Worker answers on the link', readings.linkConnected);
      gauge('active', '1 while this bridge is the active one', readings.isActive);
    },
  };
}
