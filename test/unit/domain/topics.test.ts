// Topic names and filters (contract 6, MQTT-4.7): which are a device's, and whose.
import { describe, expect, it } from 'vitest';
import {
  isDeviceId,
  isProductKey,
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
});

describe('filters', () => {
  it.each(['#', '+', 'status', 'thing/#', 'thing/+/property/+'])('may have %j behind the device', (rest) => {
    const filter = `/sys/${device.productKey}/${device.deviceId}/${rest}`;
    expect(parseFilter(filter)).toEqual({ device, rest });
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
