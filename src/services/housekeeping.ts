// Removes rows whose time is over: they decide nothing any more and only cost storage.
import { openDatabase } from '../db/client.ts';
import { deleteExpiredRows } from '../db/expired-rows.ts';
import type { ServiceContext } from './context.ts';

export async function deleteExpired({ env }: ServiceContext): Promise<void> {
  await deleteExpiredRows(openDatabase(env.DB, 'first-primary'), Date.now());
}
