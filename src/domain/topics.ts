// Topic names of contract 6: building, parsing and matching them, level by level, never by prefix. Who may use which is
// decided in topic-rights.ts.
import { topicActions, type TopicAction } from '../protocol/mqtt.ts';
import type { recordTopic } from '../protocol/relay.ts';

export type DeviceIdentity = { productKey: string; deviceId: string };

const allActions = Object.values(topicActions);

/** The longest topic of a device has 128 characters. */
const maxTopicLength = 256;

export function isProductKey(text: string): boolean {
  return /^[A-Za-z0-9_-]{1,64}$/.test(text);
}

export function isDeviceId(text: string): boolean {
  return /^dev_[0-9a-hjkmnp-tv-z]{8}$/.test(text);
}

export function isKeyId(text: string): boolean {
  return /^ak_[A-Za-z0-9]{20}$/.test(text);
}

export function topicOf(device: DeviceIdentity, action: TopicAction | typeof recordTopic): string {
  return `/sys/${device.productKey}/${device.deviceId}/${action}`;
}

export function messagingName(device: DeviceIdentity): string {
  return `${device.productKey}&${device.deviceId}`;
}

export function parseMessagingName(name: string): DeviceIdentity | undefined {
  const [productKey, deviceId, ...rest] = name.split('&');
  if (productKey === undefined || deviceId === undefined || rest.length > 0) return undefined;
  return isProductKey(productKey) && isDeviceId(deviceId) ? { productKey, deviceId } : undefined;
}

export function parseTopic(topic: string): { device: DeviceIdentity; action: TopicAction } | undefined {
  const filter = parseFilter(topic);
  const action = allActions.find((candidate) => candidate === filter?.rest);
  return filter && action && { device: filter.device, action };
}

/** The device and the remaining levels. Undefined if the filter leaves the device or is not valid. */
export function parseFilter(filter: string): { device: DeviceIdentity; rest: string } | undefined {
  const [, productKey = '', deviceId = '', rest = ''] = /^\/sys\/([^/]+)\/([^/]+)\/(.*)$/s.exec(filter) ?? [];
  if (!isProductKey(productKey) || !isDeviceId(deviceId)) return undefined;
  return isFilter(filter) ? { device: { productKey, deviceId }, rest } : undefined;
}

export function parseFleetFilter(filter: string): { productKey: string | undefined } | undefined {
  const productKey = /^\/sys\/([^/]+)\/\+\//.exec(filter)?.[1];
  if (productKey === undefined || !isFilter(filter)) return undefined;
  if (productKey === '+') return { productKey: undefined };
  return isProductKey(productKey) ? { productKey } : undefined;
}

export function isFilter(filter: string): boolean {
  if (filter === '' || filter.length > maxTopicLength || filter.includes('\0')) return false;
  const levels = filter.split('/');
  return levels.every((level, index) => {
    if (level === '#') return index === levels.length - 1;
    return level === '+' || !/[#+]/.test(level);
  });
}

export function matchesFilter(filter: string, topic: string): boolean {
  const wanted = filter.split('/');
  const levels = topic.split('/');
  for (const [index, level] of wanted.entries()) {
    if (level === '#') return true;
    if (index >= levels.length) return false;
    if (level !== '+' && level !== levels[index]) return false;
  }
  return wanted.length === levels.length || (wanted.length === levels.length + 1 && wanted.at(-1) === '#');
}
