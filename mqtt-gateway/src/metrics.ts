// The gateway's metrics and their names.
import { createRegistry } from '../../node-service/metrics.ts';

export function createMetrics() {
  const { registry, counter, histogram, observe } = createRegistry('gateway_');
  return {
    registry,
    observe,
    refused: counter('connections_refused_total', 'Connections closed at once, by limit', ['limit']),
    closed: counter('connections_closed_total', 'Connections that have ended, by what ended them', ['by']),
    bytesUp: counter('bytes_up_total', 'Bytes carried from devices to the Worker'),
    bytesDown: counter('bytes_down_total', 'Bytes carried from the Worker to devices'),
    connectSeconds: histogram('connect_seconds', 'From the opening of a connection to the first answer of the Worker'),
    workerRefusals: counter('worker_refusals_total', 'WebSockets that the Worker refused, by HTTP status', ['status']),
  };
}
