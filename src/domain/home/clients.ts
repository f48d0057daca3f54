// The topics of a home (`/mqtt/home`): what it says of each device, and what its clients may subscribe to and publish. Home Assistant
// chose the names that begin with `homeassistant`.
import type { SessionRules } from '../direct/session.ts';
import { isDeviceId, matchesFilter } from '../topics.ts';

/** Home Assistant says there that it has started. */
export const birthTopic = 'homeassistant/status';
/** A broker that passes a home's messages on says there whether it is connected; the home itself always is. */
export const bridgeStateTopic = 'latchwork/bridge/state';

export type HomeAction = 'set' | 'press' | 'birth';

export function homeTopicsOf(deviceId: string) {
  const own = (name: string) => `latchwork/${deviceId}/${name}`;
  return {
    config: `homeassistant/device/latchwork_${deviceId}/config`,
    availability: own('availability'),
    state: own('state'),
    info: own('info'),
    set: own('set'),
    press: own('press'),
  };
}

export function readOrderTopic(topic: string): { deviceId: string; action: 'set' | 'press' } | undefined {
  const [root, deviceId = '', action, ...rest] = topic.split('/');
  const isOrder = root === 'latchwork' && isDeviceId(deviceId) && rest.length === 0;
  return isOrder && (action === 'set' || action === 'press') ? { deviceId, action } : undefined;
}

/** The id of the device that a filter is about; `all` of the home, the home `itself`, or `none`. */
export function devicesMeantBy(filter: string): string {
  const named = /^homeassistant\/device\/latchwork_([^/]+)\/config$|^latchwork\/([^/]+)\/[^/]+$/.exec(filter);
  const deviceId = named?.[1] ?? named?.[2] ?? '';
  if (isDeviceId(deviceId)) return deviceId;
  if (filter === bridgeStateTopic) return 'itself';
  const { config, availability, state, info } = homeTopicsOf('dev_00000000');
  return [config, availability, state, info].some((topic) => matchesFilter(filter, topic)) ? 'all' : 'none';
}

const maxSubscriptions = 2_500;

export const homeRules: SessionRules<HomeAction> = {
  rights: ['homeassistant/#', 'latchwork/#'].map((topic) => {
    return { action: 'subscribe', topic, isExact: false, mayRetain: false };
  }),
  maxSubscriptions,
  maxFiltersLength: 40 * maxSubscriptions,
  // The connection keeps the order and loses nothing while it lasts; the next one begins with the present state.
  maxGrantedQos: 0,
  takesSubscriptionIds: true,
  publishRight: (topic) => {
    const action = topic === birthTopic ? 'birth' : readOrderTopic(topic)?.action;
    return action && { action, mayRetain: false };
  },
  provesReading: () => true,
};

/** What a home may take up, for all clients of its API key. */
export const homeLimits = {
  devices: 500,
  clients: 4,
  ordersPerSecond: 20,
  /** Devices that are asked at once, with a pause after each such group: 50 a second. */
  devicesAtOnce: 25,
  pauseMs: 500,
  /** Bytes that a client was sent since its last packet. */
  unreadBytes: 16 * 1024 * 1024,
  /** Told to clients of MQTT 5: the platform ends a connection after 100 s of silence. */
  keepAliveSeconds: 90,
} as const;
