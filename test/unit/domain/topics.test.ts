// Topic names and filters (contract 6, MQTT-4.7): which are a device's, and whose.
import { describe, expect, it } from 'vitest';
import {
  isDeviceId,
  isProductKey,
  matchesFilter,
  messagingName,
  parseFilter,
  parseMessagingName,
  parseTopic,
  topicOf,
} from '../../../src/domain/topics.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';

const { propertyPost, propertySet, propertySetReply, status } = topicActions;

const device = { productKey: 'Servo_switch-1', deviceId: 'dev_8k2m4n6p' };

describe('topics', () => {
  it.each([propertyPost, propertySet, propertySetReply, status] as const)('of %s are built and read', (action) => {
    expect(topicOf(device, action)).toBe(`/sys/Servo_switch-1/dev_8k2m4n6p/${action}`);
    expect(parseTopic(topicOf(device, action))).toEqual({ device, action });
  });

  it.each([
    '',
    '/',
    'sys/a/dev_8k2m4n6p/status',
    '/SYS/a/dev_8k2m4n6p/status',
    '/sys/a/dev_8k2m4n6p',
    '/sys/a/dev_8k2m4n6p/',
    '/sys/a/dev_8k2m4n6p/Status',
    '/sys/a/dev_8k2m4n6p/status/',
    '/sys/a/dev_8k2m4n6p/thing/event/property',
    '/sys/a/dev_8k2m4n6/status',
    '/sys/a/dev_8k2m4n6i/status',
    '/sys/a b/dev_8k2m4n6p/status',
    `/sys/${'k'.repeat(65)}/dev_8k2m4n6p/status`,
    '/sys/+/dev_8k2m4n6p/status',
    '/sys/a/dev_8k2m4n6p/#',
    '$share/g/sys/a/dev_8k2m4n6p/status',
    '/sys/a/dev_8k2m4n6p/status\0',
  ])('are not %j', (topic) => {
    expect(parseTopic(topic)).toBeUndefined();
  });
});

describe('filters', () => {
  it.each(['#', '+', 'status', 'thing/#', 'thing/+/property/+'])('may have %j behind the device', (rest) => {
    const filter = `/sys/${device.productKey}/${device.deviceId}/${rest}`;
    expect(parseFilter(filter)).toEqual({ device, rest });
  });

  it.each([
    '/sys/a/+/status',
    '/sys/#',
    '#',
    '/sys/a/dev_8k2m4n6p/#/status',
    '/sys/a/dev_8k2m4n6p/st+',
    '/+/a/dev_8k2m4n6p/x',
  ])('are not %j', (filter) => {
    expect(parseFilter(filter)).toBeUndefined();
  });

  it.each<[string, string, boolean]>([
    ['/a/b', '/a/b', true],
    ['/a/+', '/a/b', true],
    ['/a/+', '/a/b/c', false],
    ['/a/#', '/a/b/c', true],
    ['/a/#', '/a', true],
    ['/a/+/c', '/a//c', true],
    ['/a/b', '/a/b/', false],
    ['/a/b/+', '/a/b', false],
  ])('%j matches %j: %s', (filter, topic, expected) => {
    expect(matchesFilter(filter, topic)).toBe(expected);
  });
});

describe('names at the broker', () => {
  it('are product key and device id, and nothing else is one', () => {
    expect(messagingName(device)).toBe('Servo_switch-1&dev_8k2m4n6p');
    expect(parseMessagingName(messagingName(device))).toEqual(device);
    for (const name of [
      '',
      '&',
      'a',
      'a&',
      '&dev_8k2m4n6p',
      'a&dev_8k2m4n6p&x',
      'a b&dev_8k2m4n6p',
      'a&DEV_8k2m4n6p',
    ]) {
      expect(parseMessagingName(name), name).toBeUndefined();
    }
  });

  it('have product keys of 1 to 64 and device ids of 12 characters', () => {
    expect([isProductKey('k'.repeat(64)), isProductKey('k'.repeat(65)), isProductKey('')]).toEqual([
      true,
      false,
      false,
    ]);
    expect([isDeviceId('dev_00000000'), isDeviceId('dev_0000000'), isDeviceId('dev_0000000l')]).toEqual([
      true,
      false,
      false,
    ]);
  });
});
