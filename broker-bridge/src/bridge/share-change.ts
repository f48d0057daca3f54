// From the sessions of one number of shares to those of another, without losing a message: first the new sessions are made and
// subscribed, then the former ones are unsubscribed, read to their end and removed. What came in between is in both; whoever
// reads the new ones says so to the Worker. It must not decide when a change is due.
import { setTimeout as wait } from 'node:timers/promises';
import mqtt from 'mqtt';
import { uplinkFilters, uplinkFiltersOf } from '../../../src/protocol/bridge.ts';
import { BackOff } from '../../../node-service/back-off.ts';
import type { BridgeConfig } from '../config.ts';
import type { Intake } from '../intake/intake.ts';
import { describeError, type Log } from '../../../node-service/log.ts';
import {
  connectOptions,
  MqttConnection,
  type ConnectionEnd,
  type IncomingMessage,
  type MqttVersion,
} from '../broker/mqtt-connection.ts';
import { ShareProducts } from './share-products.ts';
import type { Spool } from '../spool/spool.ts';

type Change = {
  config: BridgeConfig;
  log: Log;
  intake: Intake;
  spool: Spool;
  from: number;
  shares: number;
  /** Another bridge may be given the change, or this one leave. */
  isWanted: () => boolean;
};
type Visit = {
  clientId: string;
  filters: () => readonly string[];
  onMessage: (connection: MqttConnection, message: IncomingMessage, proceed: () => void) => void;
  act: (connection: MqttConnection, isPresent: boolean) => Promise<void>;
};

/** A former session that is not subscribed any more and brings nothing for so long is at its end. */
const quietForMs = 1_500;
const lookEveryMs = 50;

/** The broker keeps a session for each share, and others for another number of shares. */
export function sessionClientId(clientId: string, share: number, shares: number): string {
  return shares === 1 ? clientId : `${clientId}-${shares}-${share}`;
}

/** Tries again until it is done; false where it is not wanted any more. It may be done again, also where it was cut short. */
export async function changeShares(change: Change): Promise<boolean> {
  const { log, from, shares, isWanted } = change;
  const backOff = new BackOff({ baseMs: 200, capMs: 5_000 });
  log.info('the sessions of another number of shares are replaced', { from, shares });
  while (isWanted()) {
    try {
      await changeOnce(change);
      log.info('the sessions are replaced', { from, shares });
      return true;
    } catch (error) {
      const retryInMs = backOff.nextDelayMs();
      log.warn('the sessions are not replaced yet', { cause: describeError(error), retryInMs });
      await wait(retryInMs, undefined, { ref: false });
    }
  }
  return false;
}

async function changeOnce(change: Change): Promise<void> {
  const { config, log, intake, spool, from, shares, isWanted } = change;
  const { workerUrl, bridgeSecret: secret, mqtt } = config;
  const productKeys: string[] = [];
  for (let share = 0; share < shares; share += 1) {
    const products = new ShareProducts({ workerUrl, secret, share, shares, log });
    await products.loadKeys(isWanted);
    requireWanted(isWanted);
    productKeys.push(...products.keys);
    await visit(config, {
      clientId: sessionClientId(mqtt.clientId, share, shares),
      filters: () => products.filters(),
      // It stays unacknowledged, and comes again to whoever serves the share.
      onMessage: (_connection, _message, proceed) => proceed(),
      act: () => Promise.resolve(),
    });
  }
  // One that was never subscribed to does no harm.
  const formerFilters = [...uplinkFilters, ...productKeys.flatMap(uplinkFiltersOf)];
  for (let share = 0; share < from; share += 1) {
    requireWanted(isWanted);
    const clientId = sessionClientId(mqtt.clientId, share, from);
    let lastAtMs = 0;
    await visit(config, {
      clientId,
      filters: () => [],
      onMessage: (connection, message, proceed) => {
        lastAtMs = performance.now();
        intake.take(connection, message, proceed);
      },
      act: async (connection, isPresent) => {
        if (!isPresent) return;
        if (!(await connection.unsubscribe(formerFilters))) throw new Error('the connection has ended');
        lastAtMs = performance.now();
        while (performance.now() - lastAtMs < quietForMs || spool.pendingCount > 0) {
          requireWanted(isWanted);
          if (connection.hasEnded) throw new Error('the connection has ended');
          await wait(lookEveryMs);
        }
      },
    });
    await forget(config, clientId).catch((error: unknown) => {
      // Without subscriptions it stays empty.
      log.warn('a former session cannot be removed', { share, shares: from, cause: describeError(error) });
    });
  }
}

function requireWanted(isWanted: () => boolean): void {
  if (!isWanted()) throw new Error('another bridge goes on');
}

/** Opens a session, does something, and leaves it as it is. */
async function visit(config: BridgeConfig, what: Visit): Promise<void> {
  const versions: MqttVersion[] = config.mqtt.protocol === 'auto' ? ['5', '3.1.1'] : [config.mqtt.protocol];
  for (const [index, version] of versions.entries()) {
    const end = await visitOnce(config, version, what);
    if (end === null) return;
    if (index === versions.length - 1) throw new Error(end.cause);
  }
}

/** How the connection ended before it was open; null where all was done. */
async function visitOnce(config: BridgeConfig, version: MqttVersion, what: Visit): Promise<ConnectionEnd | null> {
  let isPresent = false;
  const { promise, resolve } = Promise.withResolvers<ConnectionEnd | string[]>();
  const connection: MqttConnection = new MqttConnection(
    { ...config.mqtt, clientId: what.clientId },
    version,
    {
      onSession: (isKnown) => (isPresent = isKnown),
      onOpen: resolve,
      onMessage: (message, proceed) => what.onMessage(connection, message, proceed),
      onEnd: resolve,
    },
    what.filters,
  );
  const opened = await promise;
  if (!Array.isArray(opened)) return opened;
  try {
    if (opened.length > 0) throw new Error(`the broker refuses ${opened.length} subscriptions`);
    await what.act(connection, isPresent);
    return null;
  } finally {
    await connection.end();
  }
}

/** A session that begins anew and does not last: nothing of the former one is left. */
async function forget({ mqtt: config }: BridgeConfig, clientId: string): Promise<void> {
  const options = { ...connectOptions({ ...config, clientId }, '3.1.1'), clean: true, manualConnect: false };
  const client = await mqtt.connectAsync(config.url, options, false);
  await client.endAsync();
}
