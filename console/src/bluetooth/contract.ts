// The provisioning channel of the contract (4.4), as data: what is written, what is notified, and what fits. Also the few
// types of Web Bluetooth that the page uses, which TypeScript's library of the browser lacks. No radio, no screen.
export const provisioning = {
  service: '0000ffe0-0000-1000-8000-00805f9b34fb',
  networkConfig: '0000ffe1-0000-1000-8000-00805f9b34fb',
  status: '0000ffe2-0000-1000-8000-00805f9b34fb',
  namePrefixes: ['IoT-Switch-', 'IoT-Wakeup-'],
} as const;

export type NetworkConfig = { ssid: string; password: string; apiUrl: string };
export type Notification = { status: 'received' | 'wifi_connected' | 'activated' | 'error'; message: string };

/** What the Bluetooth and Wi-Fi standards allow, in bytes of UTF-8. */
const maxConfigBytes = 512;
const maxSsidBytes = 32;
const passwordCharacters = { min: 8, max: 64 };

export type ConfigProblem = 'ssid_length' | 'password_length' | 'config_length';

/** What keeps a configuration from being sent; undefined where nothing does. An empty password is that of an open network. */
export function problemOf(config: NetworkConfig): ConfigProblem | undefined {
  const { ssid, password } = config;
  const { min, max } = passwordCharacters;
  if (ssid === '' || bytesOf(ssid).length > maxSsidBytes) return 'ssid_length';
  if (password !== '' && (password.length < min || password.length > max)) return 'password_length';
  return encodeConfig(config).length > maxConfigBytes ? 'config_length' : undefined;
}

export function encodeConfig({ ssid, password, apiUrl }: NetworkConfig): Uint8Array<ArrayBuffer> {
  return bytesOf(JSON.stringify({ ssid, password, apiUrl }));
}

const statuses: readonly string[] = ['received', 'wifi_connected', 'activated', 'error'];
/** More than any notification: what has become longer is not going to be one. */
const maxPendingBytes = 2048;

/** Puts notifications together that came in pieces: a link without a larger MTU carries 20 bytes in each. */
export class NotificationReader {
  #pending = new Uint8Array();

  /** @returns the notification that this piece completes; undefined where more is to come */
  read(piece: DataView): Notification | undefined {
    const bytes = new Uint8Array(piece.buffer, piece.byteOffset, piece.byteLength);
    // What is complete in itself needs nothing of a notification that was cut off before.
    const alone = parse(bytes);
    if (alone !== undefined) {
      this.#pending = new Uint8Array();
      return alone;
    }
    const joined = new Uint8Array([...this.#pending, ...bytes]);
    const whole = parse(joined);
    this.#pending = whole === undefined && joined.length <= maxPendingBytes ? joined : new Uint8Array();
    return whole;
  }
}

function parse(bytes: Uint8Array): Notification | undefined {
  try {
    const body: unknown = JSON.parse(new TextDecoder().decode(bytes).replace(/\0+$/, ''));
    if (typeof body !== 'object' || body === null || !('status' in body)) return undefined;
    const { status, message = '' } = body as { status: unknown; message?: unknown };
    if (typeof status !== 'string' || !statuses.includes(status)) return undefined;
    return { status: status as Notification['status'], message: typeof message === 'string' ? message : '' };
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

export type Bluetooth = EventTarget & {
  getAvailability: () => Promise<boolean>;
  requestDevice: (options: {
    filters: { namePrefix: string }[];
    optionalServices: string[];
  }) => Promise<BluetoothDevice>;
};
export type BluetoothDevice = EventTarget & { name?: string; gatt?: BluetoothServer };
type BluetoothServer = {
  connected: boolean;
  connect: () => Promise<BluetoothServer>;
  disconnect: () => void;
  getPrimaryService: (
    uuid: string,
  ) => Promise<{ getCharacteristic: (uuid: string) => Promise<BluetoothCharacteristic> }>;
};
type BluetoothCharacteristic = EventTarget & {
  value?: DataView;
  properties: { write: boolean; writeWithoutResponse: boolean };
  startNotifications: () => Promise<unknown>;
  writeValueWithResponse: (value: Uint8Array<ArrayBuffer>) => Promise<void>;
  writeValueWithoutResponse: (value: Uint8Array<ArrayBuffer>) => Promise<void>;
};
