// Who may use which topic: the one policy behind the broker hooks, what is provisioned at brokers, and the relay.
// A right is said in the broker's terms, so that what is handed out and what is checked cannot differ.
import { uplinkFilters } from '../protocol/bridge.ts';
import { topicActions } from '../protocol/mqtt.ts';
import { isFilter, matchesFilter, topicOf, type DeviceIdentity } from './topics.ts';

type TopicAction = 'publish' | 'subscribe';

export type TopicRight = {
  action: TopicAction;
  /** `isExact`: this very topic or filter; otherwise whatever stays inside the filter. */
  topic: string;
  isExact: boolean;
  mayRetain: boolean;
};

export type TopicUse = { action: TopicAction; topic: string; isRetained?: boolean };

/** The bridge's name at the broker, username and client id: consumes what devices say, publishes what they are told. */
export const bridgeName = 'latchwork-bridge';

export const bridgeRights: readonly TopicRight[] = [
  ...uplinkFilters.map((topic) => ({ action: 'subscribe' as const, topic, isExact: true, mayRetain: false })),
  { action: 'publish', topic: `/sys/+/+/${topicActions.propertySet}`, isExact: false, mayRetain: false },
  { action: 'publish', topic: `/sys/+/+/${topicActions.status}`, isExact: false, mayRetain: false },
];

/** A device publishes its own three topics and hears whatever is below `/sys/{productKey}/{deviceId}/`. */
export function rightsOfDevice(device: DeviceIdentity): TopicRight[] {
  return [
    { action: 'publish', topic: topicOf(device, topicActions.propertyPost), isExact: true, mayRetain: false },
    { action: 'publish', topic: topicOf(device, topicActions.propertySetReply), isExact: true, mayRetain: false },
    { action: 'publish', topic: topicOf(device, topicActions.status), isExact: true, mayRetain: true },
    { action: 'subscribe', topic: `/sys/${device.productKey}/${device.deviceId}/#`, isExact: false, mayRetain: false },
  ];
}

/** Nothing is allowed that no right allows: `$share/...`, `$SYS/...` and other devices' topics need no rule. */
export function mayUse(rights: readonly TopicRight[], use: TopicUse): boolean {
  if (!isFilter(use.topic)) return false;
  return rights.some((right) => {
    if (right.action !== use.action) return false;
    if (use.action === 'publish' && use.isRetained === true && !right.mayRetain) return false;
    return right.isExact ? use.topic === right.topic : isWithin(use.topic, right.topic, use.action);
  });
}

/** Whether a message may be delivered: some filter that may be had matches its topic. */
export function mayReceive(rights: readonly TopicRight[], topic: string): boolean {
  if (!isFilter(topic) || /[+#]/.test(topic)) return false;
  return rights.some((right) => right.action === 'subscribe' && matchesFilter(right.topic, topic));
}

/** Whether everything that a topic or filter matches lies below or at `scope`. A topic to publish has no wildcards. */
function isWithin(topic: string, scope: string, action: TopicAction): boolean {
  const levels = topic.split('/');
  const wanted = scope.split('/');
  for (const [index, level] of wanted.entries()) {
    const given = levels[index];
    if (given === undefined) return false;
    // `#` would also match the level above it, which is not inside.
    if (level === '#') return true;
    if (given === '#' || (given === '+' && (level !== '+' || action === 'publish'))) return false;
    if (level !== '+' && level !== given) return false;
  }
  return levels.length === wanted.length;
}
