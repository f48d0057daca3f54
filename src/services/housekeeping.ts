// Deletes expired rows of D1; the schedule calls it every minute.
import { deleteExpiredRows } from '../db/expired-rows.ts';
import type { ServiceContext } from './context.ts';

export async function deleteExpired({ primary }: ServiceContext): Promise<void> {
  await deleteExpiredRows(primary(), Date.now());
}
