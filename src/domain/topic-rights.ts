// Who may use which topic: the one policy behind the broker hooks, the rights pushed to brokers, and the relay. Rights are
// expressed in broker terms, so that what is handed out and what is checked cannot differ.
import { uplinkFilters } from '../protocol/bridge.ts';
import { topicActions } from '../protocol/mqtt.ts';
import { isFilter, topicOf, type DeviceIdentity } from './topics.ts';

type TopicAction = 'publish' | 'subscribe';

export type TopicRight = {
  action: TopicAction;
  topic: string;
  isExact: boolean;
  mayRetain: boolean;
};

export type TopicUse = { action: TopicAction; topic: string; isRetained?: boolean };

export const bridgeName = 'latchwork-bridge';

/** A bridge makes up the rest of its client id itself; devices' client ids have another form. */
export function isBridgeClientId(clientId: string): boolean {
  return /^latchwork-bridge(-[A-Za-z0-9_-]{1,64})?$/.test(clientId);
}

export const bridgeRights: readonly TopicRight[] = [
  ...uplinkFilters.map((topic) => ({ action: 'subscribe' as const, topic, isExact: true, mayRetain: false })),
  ...(['propertySet', 'status', 'otaUpgrade', 'otaData'] as const).map((name) => ({
    action: 'publish' as const,
    topic: `/sys/+/+/${topicActions[name]}`,
    isExact: false,
    mayRetain: false,
  })),
];

export function rightsOfDevice(device: DeviceIdentity): TopicRight[] {
  const published = ['propertyPost', 'propertySetReply', 'status', 'otaInform', 'otaProgress', 'otaGet'] as const;
  return [
    ...published.map((name) => ({
      action: 'publish' as const,
      topic: topicOf(device, topicActions[name]),
      isExact: true,
      mayRetain: name === 'status',
    })),
    { action: 'subscribe', topic: `/sys/${device.productKey}/${device.deviceId}/#`, isExact: false, mayRetain: false },
  ];
}

/** What no right allows is denied: `$share/...`, `$SYS/...` and other devices' topics need no rule of their own. */
export function mayUse(rights: readonly TopicRight[], use: TopicUse): boolean {
  if (!isFilter(use.topic)) return false;
  return rights.some((right) => {
    if (right.action !== use.action) return false;
    if (use.action === 'publish' && use.isRetained === true && !right.mayRetain) return false;
    return right.isExact ? use.topic === right.topic : isWithin(use.topic, right.topic, use.action);
  });
}

/** Whether everything that a topic or filter matches is matched by `scope`. A topic to publish has no wildcards. */
function isWithin(topic: string, scope: string, action: TopicAction): boolean {
  const levels = topic.split('/');
  const wanted = scope.split('/');
  for (const [index, level] of wanted.entries()) {
    const actual = levels[index];
    if (actual === undefined) return false;
    // Reached only with a level in its place: the parent level, which `#` matches too, is not inside.
    if (level === '#') return true;
    if (actual === '#' || (actual === '+' && (level !== '+' || action === 'publish'))) return false;
    if (level !== '+' && level !== actual) return false;
  }
  return levels.length === wanted.length;
}
