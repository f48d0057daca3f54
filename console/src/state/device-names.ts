// Names of devices that a screen mentions by their ids, as far as the user may read them.
import { dataOf, type Client, type Data } from '@latchwork/client';
import { effect, signal } from '@preact/signals';
import { isSignedIn, session } from './session.ts';

export type ListedDevice = Data<Client['devices']['$get']>['list'][number];

const names = signal<ReadonlyMap<string, string>>(new Map());
const asked = new Set<string>();
effect(() => {
  if (isSignedIn.value) return;
  names.value = new Map();
  asked.clear();
});

/** As many devices as a group may have. */
export const mostDevices = 500;

/** Its id until the name is known, and if it is not to be known. */
export function nameOf(deviceId: string): string {
  return names.value.get(deviceId) ?? deviceId;
}

export function learnNames(devices: readonly { deviceId: string; name: string | null }[]): void {
  const known = devices.flatMap(({ deviceId, name }) => (name === null ? [] : [[deviceId, name] as const]));
  names.value = new Map([...names.peek(), ...known]);
}

/** Of one that is mentioned alone. */
export function askName(deviceId: string): void {
  if (asked.has(deviceId) || names.peek().has(deviceId)) return;
  asked.add(deviceId);
  dataOf(session().api.devices[':deviceId'].$get({ param: { deviceId } })).then(
    (device) => learnNames([device]),
    (error: unknown) => console.info(deviceId, error),
  );
}

/** Those to choose from. @throws ApiError, NoAnswerError */
export async function readDevices(): Promise<readonly ListedDevice[]> {
  const devices: ListedDevice[] = [];
  for (let after: string | null = ''; after !== null && devices.length < mostDevices;) {
    const page: Data<Client['devices']['$get']> = await dataOf(
      session().api.devices.$get({ query: { after, size: '100' } }),
    );
    devices.push(...page.list);
    after = page.next ?? null;
  }
  learnNames(devices);
  return devices;
}
