// Deletes expired rows of D1; the schedule calls it every minute.
import { openDatabase } from '../db/client.ts';
import { deleteExpiredRows } from '../db/expired-rows.ts';
import type { ServiceContext } from './context.ts';

export async function deleteExpired({ env }: ServiceContext): Promise<void> {
  await deleteExpiredRows(openDatabase(env.DB, 'first-primary'), Date.now());
}
