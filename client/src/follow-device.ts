// One device as an application shows it: its present state, kept up to date by the relay. After each time without a
// connection the state is read again, so that nothing is missed.
import { dataOf, type Client, type Data } from './http.ts';
import type { Relay, RelayError, RelayMessage, Subscription } from './relay.ts';
import { recordChangeOf, topicOfDevice, type RecordChange } from './topics.ts';

export type DeviceState = {
  status: Data<Client['devices'][':deviceId']['status']['$get']>;
  properties: Data<Client['devices'][':deviceId']['properties']['$get']>['list'];
};

export type DeviceListener = {
  /** When the subscription begins, and after each loss of the connection. */
  onState: (state: DeviceState) => void;
  onMessage: (message: RelayMessage) => void;
  /** Its name, owner or members are other ones now, or it was deleted. */
  onRecord?: (change: RecordChange) => void;
  /** The state could not be read, or the relay refuses to go on. */
  onError: (error: unknown) => void;
};

export function followDevice(
  api: Client,
  relay: Relay,
  device: { productKey: string; deviceId: string },
  { onState, onMessage, onRecord, onError }: DeviceListener,
): Subscription {
  const { deviceId } = device;
  /** What comes while the state is read is newer than the state, or in it. */
  let held: RelayMessage[] | undefined;
  const readState = async (): Promise<void> => {
    const messages: RelayMessage[] = [];
    held = messages;
    try {
      const [status, properties] = await Promise.all([
        dataOf(api.devices[':deviceId'].status.$get({ param: { deviceId } })),
        dataOf(api.devices[':deviceId'].properties.$get({ param: { deviceId } })),
      ]);
      // The connection was lost meanwhile: the next reading is on its way.
      if (held !== messages) return;
      onState({ status, properties: properties.list });
    } catch (error) {
      if (held === messages) onError(error);
    }
    if (held !== messages) return;
    held = undefined;
    for (const message of messages) onMessage(message);
  };
  return relay.subscribe(topicOfDevice(device), {
    onActive: () => {
      readState().catch(onError);
    },
    onMessage: (message) => {
      const change = recordChangeOf(message);
      if (change !== undefined) onRecord?.(change);
      else if (held === undefined) onMessage(message);
      else held.push(message);
    },
    onRefused: (error: RelayError) => onError(error),
  });
}
