// A bridge whose disk refuses to open the spool: says so to orchestrators, Prometheus and the Worker, and tries again. It takes no
// message and publishes no command.
import { setTimeout as wait } from 'node:timers/promises';
import { serveHealth } from '../../../node-service/health.ts';
import type { Log } from '../../../node-service/log.ts';
import { createRegistry } from '../../../node-service/metrics.ts';
import type { BridgeConfig } from '../config.ts';
import { DiskRefusal } from '../spool/thread.ts';
import { WorkerLink } from './worker-link.ts';

const retryMs = 2000;

/** Resolves with what `open` returns. @throws what `open` throws that is no refusal of the disk */
export async function untilOpened<T>(config: BridgeConfig, log: Log, error: unknown, open: () => Promise<T>) {
  if (!(error instanceof DiskRefusal)) throw error;
  const stall = { reason: 'spool_full', sinceMs: Date.now() } as const;
  log.error('the spool cannot be opened: messages wait at the broker', { alarm: true, cause: error.message });
  const { registry, observe } = createRegistry('bridge_');
  observe('spool_full', '1 while the spool takes no messages', () => true);
  const details = { uplink: 'stalled', uplinkReason: stall.reason };
  const endHealth = await serveHealth(config.health, registry, log, () => ({ isReady: false, details }));
  const link: WorkerLink = new WorkerLink({
    config,
    log,
    readBroker: () => ({ connected: false }),
    onRole: () => undefined,
    onPublish: ({ id }) => link.send({ type: 'not-published', id, reason: 'broker_disconnected' }),
    onConnectedChange: () => link.send({ type: 'uplink', stall }),
    onRetry: () => undefined,
    onReplaced: () => undefined,
    onRefused: (remedy) => log.error('the Worker does not let this bridge in', { alarm: true, remedy }),
  });
  link.start();
  try {
    for (;;) {
      await wait(retryMs);
      const opened = await open().catch((later: unknown) => {
        if (!(later instanceof DiskRefusal)) throw later;
      });
      if (opened !== undefined) return opened;
    }
  } finally {
    await link.stop();
    endHealth();
  }
}
