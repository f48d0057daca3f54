// One Bluetooth connection to a device that is being set up: choose it, connect, write, listen. Knows what may go wrong with
// a radio, and nothing of the service.
import {
  encodeConfig,
  NotificationReader,
  provisioning,
  type Bluetooth,
  type BluetoothDevice,
  type NetworkConfig,
  type Notification,
} from './contract.ts';

export type LinkProblem = 'cancelled' | 'adapter' | 'forbidden' | 'unreachable' | 'other_device' | 'write_failed';

/** Why the device cannot be talked to. `detail` is what the browser said. */
export class LinkError extends Error {
  override readonly name = 'LinkError';
  readonly problem: LinkProblem;

  constructor(problem: LinkProblem, cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.problem = problem;
  }
}

/** Connecting over the air succeeds within a few seconds or not at all. */
const connectWithinMs = 20_000;

export function bluetoothOf(browser: Navigator): Bluetooth | undefined {
  return 'bluetooth' in browser ? (browser.bluetooth as Bluetooth) : undefined;
}

/** Has to be called by a click: the browser shows its list for a few seconds after one only. @throws LinkError */
export async function chooseDevice(bluetooth: Bluetooth): Promise<BluetoothDevice> {
  const filters = provisioning.namePrefixes.map((namePrefix) => ({ namePrefix }));
  try {
    return await bluetooth.requestDevice({ filters, optionalServices: [provisioning.service] });
  } catch (error) {
    const isAdapter = error instanceof Error && /adapter|globally disabled/i.test(error.message);
    if (isAdapter) throw new LinkError('adapter', error);
    throw new LinkError(
      error instanceof DOMException && error.name === 'NotFoundError' ? 'cancelled' : 'forbidden',
      error,
    );
  }
}

export type Link = {
  /** @throws LinkError */
  send: (config: NetworkConfig) => Promise<void>;
  close: () => void;
};

type Listener = { onNotification: (notification: Notification) => void; onLost: () => void };

/** Resolves when the device's notifications are subscribed, so that none is missed. @throws LinkError */
export async function openLink(device: BluetoothDevice, { onNotification, onLost }: Listener): Promise<Link> {
  const { gatt } = device;
  if (gatt === undefined) throw new LinkError('other_device', 'no GATT server');
  let isClosed = false;
  const lose = () => {
    if (!isClosed) onLost();
    isClosed = true;
  };
  const close = () => {
    isClosed = true;
    device.removeEventListener('gattserverdisconnected', lose);
    gatt.disconnect();
  };
  const server = await within(connectWithinMs, gatt.connect()).catch((error: unknown) => {
    close();
    throw new LinkError('unreachable', error);
  });
  try {
    const service = await server.getPrimaryService(provisioning.service);
    const [config, status] = await Promise.all([
      service.getCharacteristic(provisioning.networkConfig),
      service.getCharacteristic(provisioning.status),
    ]);
    const reader = new NotificationReader();
    status.addEventListener('characteristicvaluechanged', () => {
      const notification = status.value === undefined ? undefined : reader.read(status.value);
      if (notification !== undefined && !isClosed) onNotification(notification);
    });
    await status.startNotifications();
    device.addEventListener('gattserverdisconnected', lose);
    const send = async (network: NetworkConfig): Promise<void> => {
      const bytes = encodeConfig(network);
      try {
        if (config.properties.write) await config.writeValueWithResponse(bytes);
        else await config.writeValueWithoutResponse(bytes);
      } catch (error) {
        throw new LinkError('write_failed', error);
      }
    };
    return { send, close };
  } catch (error) {
    const isGone = !gatt.connected;
    close();
    throw new LinkError(isGone ? 'unreachable' : 'other_device', error);
  }
}

async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}
