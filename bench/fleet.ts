// One user with one product and its devices, made over HTTP as their owners and the devices themselves would: topics
// and identifiers are real ones.
import { createClient, dataOf } from '../src/client.ts';

export type Device = { deviceId: string; reportTopic: string; commandTopic: string };
export type Fleet = { token: string; devices: Device[] };

const productKey = 'bench-switch';
const activationsAtOnce = 16;

export async function makeFleet(apiUrl: string, deviceCount: number): Promise<Fleet> {
  const account = { email: 'bench@example.com', password: 'a bench needs no secret' };
  const call = createClient(apiUrl);
  await dataOf(call.users.register.$post({ json: { username: 'bench', ...account } }));
  const login = { username: account.email, password: account.password };
  const { token } = await dataOf(call.users.login.$post({ json: login }));
  const body = { productKey, name: 'Bench switch', controlMode: 'toggle' as const };
  await dataOf(createClient(apiUrl, { credentials: { token } }).products.$post({ json: body }));
  const devices: Device[] = [];
  while (devices.length < deviceCount) {
    const count = Math.min(activationsAtOnce, deviceCount - devices.length);
    const serials = Array.from({ length: count }, (_, index) => `BENCH-${devices.length + index}`);
    devices.push(...(await Promise.all(serials.map((deviceSN) => activate(apiUrl, deviceSN)))));
  }
  return { token, devices };
}

async function activate(apiUrl: string, deviceSN: string): Promise<Device> {
  const { deviceId, topics } = await dataOf(
    createClient(apiUrl).devices.activate.$post({ json: { productKey, deviceSN } }),
  );
  return { deviceId, reportTopic: topics.propertyPost, commandTopic: topics.propertySet };
}
