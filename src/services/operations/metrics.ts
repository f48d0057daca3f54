// What a Prometheus reads of the Worker: what the database and the link to the bridge know. Requests, errors and times are
// in Cloudflare's own metrics: an isolate knows only its own.
import { countOutbox } from '../../db/devices/broker-outbox.ts';
import { countAllDevices } from '../../db/devices/lists.ts';
import { countUsers } from '../../db/accounts/operator.ts';
import { callBrokerLink } from '../../objects/calls/stubs.ts';
import { describeError, log } from '../../log.ts';
import type { ServiceContext } from '../../context.ts';
import { findMissingParts } from './health.ts';

type Sample = [name: string, value: number];
type Metric = { help: string; samples: Sample[] };

export async function renderMetrics(context: ServiceContext): Promise<string> {
  const db = context.replica();
  const { hasBroker } = context.config;
  const [missing, users, devices, outbox, link] = await Promise.all([
    findMissingParts(context),
    countUsers(db),
    countAllDevices(db),
    countOutbox(db, Date.now()),
    hasBroker ? readLink(context) : undefined,
  ]);
  const { inactive, online, disabled } = devices;
  const offline = devices.devices - inactive - online - disabled;
  const metrics: Record<string, Metric> = {
    latchwork_up: { help: '1 while /health misses nothing', samples: [['', missing.length === 0 ? 1 : 0]] },
    latchwork_users: {
      help: 'Accounts, disabled ones included',
      samples: [
        ['{state="enabled"}', users.users - users.disabled],
        ['{state="disabled"}', users.disabled],
      ],
    },
    latchwork_devices: {
      help: 'Devices by the status that lists show',
      samples: Object.entries({ inactive, online, offline, disabled }).map(([status, count]) => [
        `{status="${status}"}`,
        count,
      ]),
    },
    latchwork_broker_outbox: {
      help: 'Credentials that wait to be pushed to the broker',
      samples: [['', outbox.waiting]],
    },
    latchwork_broker_outbox_oldest_seconds: {
      help: 'For how long the oldest of them waits',
      samples: [['', outbox.oldestSeconds]],
    },
  };
  if (hasBroker) {
    const flag = (isTrue: boolean | undefined) => (isTrue === true ? 1 : 0);
    metrics['latchwork_bridge_connected'] = {
      help: '1 while a bridge is connected',
      samples: [['', flag(link?.bridgeConnected)]],
    };
    metrics['latchwork_broker_connected'] = {
      help: '1 while the active bridge has the broker',
      samples: [['', flag(link?.brokerConnected)]],
    };
    metrics['latchwork_uplink_stalled_seconds'] = {
      help: 'For how long the uplink stands still',
      samples: [['', link?.stall?.seconds ?? 0]],
    };
  }
  return Object.entries(metrics)
    .map(([name, { help, samples }]) =>
      [`# HELP ${name} ${help}`, `# TYPE ${name} gauge`, ...samples.map(([of, value]) => `${name}${of} ${value}`)].join(
        '\n',
      ),
    )
    .join('\n')
    .concat('\n');
}

async function readLink({ env }: ServiceContext) {
  try {
    return await callBrokerLink(env, 'health', 'idempotent', (link) => link.health());
  } catch (error) {
    log('warn', 'metrics: the link to the bridge does not answer', describeError(error));
    return undefined;
  }
}
