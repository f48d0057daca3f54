// Bulk runs of the owner of commands.ts, and their objects. Asserts nothing.
import { runDurableObjectAlarm } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { vi } from 'vitest';
import { call, type Answer } from './clients/client.ts';
import { nextCommand, owner, read, type Command, type Device } from './commands.ts';

export type Bulk = {
  state: string;
  summary: Record<string, number>;
  scene: { isComplete: boolean | null; missing: string[]; putBack: Item[] } | null;
  list: Item[];
  total: number;
  listed: boolean;
};
type Item = { deviceId: string; outcome: string; reason: string | null; command: Command | null };

type By = { token: string };
export const startBulk = (body: object, by: By = owner, path = '/commands'): Promise<Answer<{ bulkId: string }>> =>
  call('POST', path, { token: by.token, body });
export const readBulk = async (bulkId: string, query = '') =>
  (await call<Bulk>('GET', `/bulk/${bulkId}${query}`, { token: owner.token })).data;
export const pause = (bulkId: string, paused: boolean) =>
  call('PATCH', `/bulk/${bulkId}`, { token: owner.token, body: { paused } });
export const runOf = (bulkId: string) => env.BULK_RUN.getByName(bulkId);
export const ringBulk = (bulkId: string) => runDurableObjectAlarm(runOf(bulkId));

export async function untilBulk(bulkId: string, isThere: (bulk: Bulk) => boolean): Promise<Bulk> {
  for (;;) {
    const bulk = await readBulk(bulkId);
    if (isThere(bulk)) return bulk;
    await ringBulk(bulkId);
  }
}

export const untilSettled = (bulkId: string) => untilBulk(bulkId, ({ state }) => state === 'settled');

/** A run that ends without a device that answers. */
export const endRun = async (body: object) => untilSettled((await startBulk(body)).data.bulkId);

/** The next command, once its device's object knows that it is published: only then a report confirms it. */
export async function takeCommand(device: Device) {
  const command = await nextCommand(device);
  await vi.waitUntil(async () => (await read(device, command.id)).state === 'sent');
  return command;
}
