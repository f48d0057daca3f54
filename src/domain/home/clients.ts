// The topics of a home (`/mqtt/home`): what it says of each device, and what its clients may subscribe to and publish, as the control that
// it means (contract 4.3). Who logs in to it, as CONNECT says. Home Assistant chose the names that begin with `homeassistant`. Pure.
import { textOf } from '../../protocol/mqtt-codec/byte-cursor.ts';
import type { ConnectPacket } from '../../protocol/mqtt-codec/client-packets.ts';
import type { ControlParams } from '../control-command.ts';
import type { ConnectRefusal } from '../direct/answer-codes.ts';
import type { SessionRules } from '../direct/session.ts';
import { accept, refuse, type Outcome } from '../refusal.ts';
import { isDeviceId, isKeyId, matchesFilter } from '../topics.ts';

/** Home Assistant says there that it has started. */
const birthTopic = 'homeassistant/status';
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

/** A command, or the state that the witness has to see. */
type Order = { params: ControlParams } | { ensures: 'on' | 'off' };

const positions = ['up', 'middle', 'down'];

export function readOrder(action: Exclude<HomeAction, 'birth'>, payload: string | undefined): Outcome<Order> {
  const text = payload ?? '';
  if (action === 'press') {
    if (text === 'pulse' || text === 'trigger') return accept({ params: { action: text } });
  } else if (positions.includes(text)) {
    return accept({ params: { action: 'toggle', position: text } });
  } else if (text === 'on' || text === 'off') {
    return accept({ ensures: text });
  } else if (/^\d{1,3}$/.test(text) && Number(text) <= 180) {
    return accept({ params: { angle: Number(text) } });
  }
  return refuse({ kind: 'invalid_input', path: action, problem: 'is none of the documented words' });
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

/** An API key by its id and value. Whether the key is right, the Worker checks. */
export function readHomeLogin(
  packet: ConnectPacket,
): { keyId: string; password: string } | { refusal: ConnectRefusal } {
  const { username: keyId = '', will, hasAuthMethod } = packet;
  if (hasAuthMethod) return { refusal: 'auth_method' };
  const password = packet.password && textOf(packet.password);
  if (!isKeyId(keyId) || password === undefined) return { refusal: 'bad_credentials' };
  // Home Assistant says by it that it is gone: nobody else needs to know.
  if (will !== undefined && will.topic !== birthTopic) return { refusal: 'will_topic' };
  if (will?.isRetained === true) return { refusal: 'will_retain' };
  return { keyId, password };
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
