// What a Prometheus reads of the Worker: what the database, the relay and the link to the bridge know. Requests, errors and times
// are in Cloudflare's own metrics: an isolate knows only its own.
import { countOutbox } from '../../db/devices/broker-outbox.ts';
import { countByStatus } from '../../db/devices/lists.ts';
import { readMeasurements } from '../../db/measurements.ts';
import { countUsers } from '../../db/accounts/operator.ts';
import { callBrokerLink, callRelay, relayShards, resultOr } from '../../objects/calls/stubs.ts';
import type { ServiceContext } from '../../context.ts';
import { findMissingParts } from './health.ts';

type Sample = [name: string, value: number];
type Metric = { help: string; samples: Sample[] };

export async function renderMetrics(context: ServiceContext): Promise<string> {
  const db = context.replica();
  const { env } = context;
  const { hasBroker } = context.config;
  const nowMs = Date.now();
  const [missing, users, devices, outbox, { jobAgeSeconds, goneOffline }, sockets, link] = await Promise.all([
    findMissingParts(context),
    countUsers(db),
    countByStatus(db),
    countOutbox(db, nowMs),
    readMeasurements(db, nowMs),
    Promise.all(relayShards(env).map((shard) => resultOr(NaN, callRelay(env, shard, 'idempotent').countSockets()))),
    hasBroker ? resultOr(undefined, callBrokerLink(env, 'idempotent').health()) : undefined,
  ]);
  const metrics: Record<string, Metric> = {
    latchwork_up: single('1 while /health misses nothing', missing.length === 0),
    latchwork_users: each('Accounts, disabled ones included', 'state', users),
    latchwork_devices: each('Devices by the status that lists show', 'status', devices),
    latchwork_devices_gone_offline_total: single('How often a device went offline', goneOffline),
    latchwork_relay_sockets: each('Open WebSockets of the relay', 'shard', sockets),
    latchwork_scheduled_job_age_seconds: each('Seconds since each scheduled job last succeeded', 'name', jobAgeSeconds),
    latchwork_broker_outbox: single('Credentials that wait to be pushed to the broker', outbox.waiting),
    latchwork_broker_outbox_oldest_seconds: single('For how long the oldest of them waits', outbox.oldestSeconds),
    ...(hasBroker && {
      latchwork_bridge_connected: single('1 while a bridge is connected', link?.bridgeConnected),
      latchwork_broker_connected: single('1 while the active bridge has the broker', link?.brokerConnected),
      latchwork_uplink_stalled_seconds: single('For how long the uplink stands still', link?.stall?.seconds),
    }),
  };
  return Object.entries(metrics)
    .flatMap(([name, { help, samples }]) => [
      `# HELP ${name} ${help}`,
      `# TYPE ${name} ${name.endsWith('_total') ? 'counter' : 'gauge'}`,
      ...samples.map(([labels, value]) => `${name}${labels} ${value}`),
    ])
    .join('\n')
    .concat('\n');
}

/** 0 for no, and for what is not known. */
function single(help: string, value: number | boolean = 0): Metric {
  return { help, samples: [['', Number(value)]] };
}

function each(help: string, label: string, counts: Record<string, number> | number[]): Metric {
  return { help, samples: Object.entries(counts).map(([name, count]) => [`{${label}="${name}"}`, count]) };
}
