// The provisioning channel as the contract writes it down (contract 4.4, 3): devices in the field have these values
// built in.
import { describe, expect, it } from 'vitest';
import {
  advertisedNamePrefixes,
  networkConfigSchema,
  progressByStatus,
  provisioningService,
  provisioningStates,
  statusNotificationSchema,
} from '../../../src/protocol/provisioning.ts';

describe('the provisioning channel', () => {
  it('has the service and characteristics that devices offer', () => {
    expect(provisioningService).toEqual({
      uuid: '0000FFE0-0000-1000-8000-00805F9B34FB',
      networkConfigUuid: '0000FFE1-0000-1000-8000-00805F9B34FB',
      statusUuid: '0000FFE2-0000-1000-8000-00805F9B34FB',
    });
  });

  it('finds devices by the names they advertise', () => {
    expect(advertisedNamePrefixes.map(({ prefix }) => prefix)).toEqual(['IoT-Switch-', 'IoT-Wakeup-']);
  });

  it('writes network, password and the address to activate against, all of them texts', () => {
    const config = { ssid: 'Workshop', password: '', apiUrl: 'http://192.168.1.20:8787/' };
    expect(networkConfigSchema.parse(config)).toEqual(config);
    for (const name of ['ssid', 'password', 'apiUrl']) {
      expect(networkConfigSchema.safeParse({ ...config, [name]: undefined }).success, name).toBe(false);
      expect(networkConfigSchema.safeParse({ ...config, [name]: 1 }).success, name).toBe(false);
    }
  });

  it('takes the four notifications, each with its progress, and no other', () => {
    expect(progressByStatus).toEqual({ received: 20, wifi_connected: 60, activated: 100, error: null });
    for (const status of Object.keys(progressByStatus)) {
      expect(statusNotificationSchema.parse({ status, message: 'detail' })).toEqual({ status, message: 'detail' });
    }
    expect(statusNotificationSchema.safeParse({ status: 'done', message: '' }).success).toBe(false);
    expect(statusNotificationSchema.safeParse({ status: 'received' }).success).toBe(false);
  });

  it('names the states of a client in the order of the flow', () => {
    expect(provisioningStates).toEqual([
      'idle',
      'connecting',
      'sendingConfig',
      'waitingWifi',
      'wifiConnected',
      'activating',
      'activated',
      'error',
    ]);
  });
});
