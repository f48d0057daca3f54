// Names of devices at the broker (contract 6). Topics and filters are in test/worker/broker/topic-rights.
import { describe, expect, it } from 'vitest';
import { isDeviceId, isProductKey, messagingName, parseMessagingName } from '../../../src/domain/topics.ts';

const device = { productKey: 'Servo_switch-1', deviceId: 'dev_8k2m4n6p' };

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
