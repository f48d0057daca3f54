// The bridge's metrics and their names.
import { createRegistry } from '../../node-service/metrics.ts';

export type Metrics = ReturnType<typeof createMetrics>;

export function createMetrics() {
  const { registry, counter, gauge, histogram, observe } = createRegistry('bridge_');
  return {
    registry,
    observe,
    messagesReceived: counter('messages_received_total', 'Messages from the broker, redeliveries included'),
    redeliveriesKnown: counter('redeliveries_known_total', 'Redeliveries of what this spool holds or held'),
    batches: counter('batches_total', 'Batches sent to the Worker, by outcome', ['outcome']),
    reportSeconds: histogram('report_seconds', 'From the arrival of the oldest message of a batch to its answer'),
    items: counter('items_total', 'Messages answered by the Worker, by result', ['result']),
    retries: counter('retries_total', 'Messages sent again, after a failed batch or an answer of "retry"'),
    messagesDropped: counter('messages_dropped_total', 'Messages dropped because their device sends too many'),
    deadLetters: counter('dead_letters_total', 'Messages that the Worker will never take'),
    reconnects: counter('reconnects_total', 'Connections lost or refused, by peer', ['peer']),
    commands: counter('commands_total', 'Commands from the Worker, by outcome', ['outcome']),
    lastWorkerStatus: gauge('last_worker_status', 'HTTP status of the last answer to a batch, 0 when there was none'),
  };
}
