// The channel that brings a device onto a network, over Bluetooth Low Energy (contract 4.4). Between a device and a
// mobile client: the service takes no part in it and only publishes it in its reference.
import { z } from 'zod';

export const provisioningService = {
  uuid: '0000FFE0-0000-1000-8000-00805F9B34FB',
  networkConfigUuid: '0000FFE1-0000-1000-8000-00805F9B34FB',
  statusUuid: '0000FFE2-0000-1000-8000-00805F9B34FB',
} as const;

export const advertisedNamePrefixes = [
  { prefix: 'IoT-Switch-', device: 'servo switch' },
  { prefix: 'IoT-Wakeup-', device: 'USB wake-up device' },
] as const;

export const networkConfigSchema = z.object({
  ssid: z.string().min(1).meta({ description: 'Name of the network to join.' }),
  password: z.string().meta({ description: 'Of that network; empty where it is open.' }),
  apiUrl: z.string().min(1).meta({ description: 'The service base address the device will activate against.' }),
});

const notificationStatuses = ['received', 'wifi_connected', 'activated', 'error'] as const;

export const statusNotificationSchema = z.object({
  status: z.enum(notificationStatuses),
  message: z.string().meta({ description: 'Detail, for people.' }),
});

/** Progress in percent that a notification means; null: provisioning failed. */
export const progressByStatus: Record<(typeof notificationStatuses)[number], number | null> = {
  received: 20,
  wifi_connected: 60,
  activated: 100,
  error: null,
};

export const provisioningStates = [
  'idle',
  'connecting',
  'sendingConfig',
  'waitingWifi',
  'wifiConnected',
  'activating',
  'activated',
  'error',
] as const;
