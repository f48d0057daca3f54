// One user with one product and its devices, made over HTTP as their owners and the devices themselves would: topics
// and identifiers are real ones.
import { callApi } from '../dev/api-client.ts';

export type Device = { deviceId: string; reportTopic: string; commandTopic: string };
export type Fleet = { token: string; devices: Device[] };

const productKey = 'bench-switch';
const activationsAtOnce = 16;

export async function makeFleet(apiUrl: string, deviceCount: number): Promise<Fleet> {
  const account = { email: 'bench@example.com', password: 'a bench needs no secret' };
  await callApi(apiUrl, '/users/register', { method: 'POST', body: { username: 'bench', ...account } });
  const login = { username: account.email, password: account.password };
  const token = String((await callApi(apiUrl, '/users/login', { method: 'POST', body: login }))['token']);
  const product = { productKey, name: 'Bench switch', controlMode: 'toggle' };
  await callApi(apiUrl, '/products', { method: 'POST', token, body: product });
  const devices: Device[] = [];
  while (devices.length < deviceCount) {
    const count = Math.min(activationsAtOnce, deviceCount - devices.length);
    const serials = Array.from({ length: count }, (_, index) => `BENCH-${devices.length + index}`);
    devices.push(...(await Promise.all(serials.map((deviceSN) => activate(apiUrl, deviceSN)))));
  }
  return { token, devices };
}

async function activate(apiUrl: string, deviceSN: string): Promise<Device> {
  const answer = await callApi(apiUrl, '/devices/activate', { method: 'POST', body: { productKey, deviceSN } });
  const topics = answer['topics'] as { propertyPost: string; propertySet: string };
  return {
    deviceId: String(answer['deviceId']),
    reportTopic: topics.propertyPost,
    commandTopic: topics.propertySet,
  };
}
