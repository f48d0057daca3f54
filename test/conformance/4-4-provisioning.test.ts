// Contract section 4.4: the provisioning channel. The service takes no part in it; what it serves is the reference.
import { expect, it } from 'vitest';
import { service } from '../../rig/clients/conformance-client.ts';

type AsyncApi = {
  channels: Record<string, { address: string; messages: Record<string, unknown> }>;
  components: { messages: Record<string, { payload: { properties: Record<string, { enum?: string[] }> } }> };
  'x-provisioning': Record<string, unknown>;
};

const document = (await (await fetch(`${service.url}/api/v1/asyncapi.json`)).json()) as AsyncApi;
const membersOf = (message: string) => document.components.messages[message]?.payload.properties ?? {};

it('has the service and both characteristics', () => {
  expect(document['x-provisioning']['serviceUuid']).toBe('0000FFE0-0000-1000-8000-00805F9B34FB');
  expect(document.channels['networkConfig']).toMatchObject({ address: '0000FFE1-0000-1000-8000-00805F9B34FB' });
  expect(document.channels['provisioningStatus']).toMatchObject({ address: '0000FFE2-0000-1000-8000-00805F9B34FB' });
});

it('has the advertised names', () => {
  expect(document['x-provisioning']['advertisedNamePrefixes']).toEqual([
    { prefix: 'IoT-Switch-', device: 'servo switch' },
    { prefix: 'IoT-Wakeup-', device: 'USB wake-up device' },
  ]);
});

it('has the members of both messages', () => {
  expect(Object.keys(membersOf('NetworkConfig'))).toEqual(['ssid', 'password', 'apiUrl']);
  expect(Object.keys(membersOf('StatusNotification'))).toEqual(['status', 'message']);
  expect(membersOf('StatusNotification')['status']?.enum).toEqual(['received', 'wifi_connected', 'activated', 'error']);
});

it('has the progress of each notification and the states of a client, in the order of the flow', () => {
  expect(document['x-provisioning']['progressByStatus']).toEqual({
    received: 20,
    wifi_connected: 60,
    activated: 100,
    error: null,
  });
  expect(document['x-provisioning']['clientStates']).toEqual([
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
