// Compares the device records in D1 with the sessions in their objects, slice by slice, and mends what a restore of one
// side alone leaves behind. The other direction, a session without a record, each device finds out itself
// (domain/device/record-check.ts), because a Worker cannot list objects; of those that an operator names it is asked at once.
import type { z } from 'zod';
import { deleteRecords } from '../../db/devices/devices.ts';
import {
  beginReconciliation,
  findReconciliation,
  listRecords,
  markInactive,
  moveOn,
  type ComparedRecord,
  type Findings,
} from '../../db/devices/reconciliation.ts';
import { callDevice } from '../../objects/calls/stubs.ts';
import { describeError, log } from '../../log.ts';
import type { reconciledDevicesSchema } from '../../protocol/bridge.ts';
import { provisionAtBroker } from '../broker/provisioning.ts';
import type { ServiceContext } from '../../context.ts';
import { hadSession, restoreById } from './lost-sessions.ts';

const dayMs = 24 * 3_600_000;
/** An activation makes the record first, then the session. */
const activationMs = 10 * 60_000;
const comparedAtOnce = 20;

export type ReconciliationView = Findings & { startedAt: string; finishedAt: string | null };

/** Every minute: goes on, or begins where the last one began long enough ago. */
export async function reconcileOnSchedule(context: ServiceContext): Promise<void> {
  const { reconcileEveryDays } = context.config.limits;
  const last = await findReconciliation(context.primary());
  const isOver = last !== undefined && last.finishedAt !== null;
  if (isOver && Date.now() - last.startedAt < reconcileEveryDays * dayMs) return;
  await reconcileSlice(context, isOver || last === undefined);
}

/** One slice: the first of a new reconciliation, or the next one; nothing where that is finished. */
export async function reconcileSlice(context: ServiceContext, isNew: boolean): Promise<ReconciliationView> {
  const db = context.primary();
  const { recordsPerReconciliation } = context.config.limits;
  const found = isNew ? undefined : await findReconciliation(db);
  const before = found ?? (await beginReconciliation(db, Date.now()));
  if (before.finishedAt === null) {
    const records = await listRecords(db, before.cursor, recordsPerReconciliation);
    const findings: Findings = { checked: 0, inactive: 0, deleted: 0, failed: 0 };
    for (let at = 0; at < records.length; at += comparedAtOnce) {
      const some = records.slice(at, at + comparedAtOnce);
      for (const finding of await Promise.all(some.map((record) => compare(context, record)))) {
        findings.checked += 1;
        if (finding !== 'same') findings[finding] += 1;
      }
    }
    const finishedAt = records.length < recordsPerReconciliation ? Date.now() : null;
    await moveOn(db, before, { ...findings, cursor: records.at(-1)?.id ?? before.cursor, finishedAt });
  }
  const { startedAt, finishedAt, checked, inactive, deleted, failed } = (await findReconciliation(db)) ?? before;
  const times = { startedAt: toIso(startedAt), finishedAt: finishedAt === null ? null : toIso(finishedAt) };
  return { ...times, checked, inactive, deleted, failed };
}

async function compare(
  context: ServiceContext,
  record: ComparedRecord,
): Promise<'same' | 'inactive' | 'deleted' | 'failed'> {
  const { deviceId, productKey, projectionVersion, membersVersion } = record;
  try {
    const session = await callDevice(context.env, deviceId, 'compareRecord', 'idempotent', (device) =>
      device.compareRecord(projectionVersion, membersVersion),
    );
    const isKnownLoss = record.status === 0 && !hadSession(record);
    if (session === 'present' || isKnownLoss || Date.now() - record.createdAt < activationMs) return 'same';
    const db = context.primary();
    // The deletion was cut off, or D1 was restored to a time before it.
    if (session === 'deleted') {
      await provisionAtBroker(context, { productKey, deviceId }, { kind: 'delete' }, Date.now());
      await deleteRecords(db, [deviceId]);
      log('warn', 'reconciliation: record of a deleted device removed', { deviceId });
      return 'deleted';
    }
    if (await restoreById(context, deviceId)) return 'inactive';
    await markInactive(db, record);
    log('warn', 'reconciliation: record without a session, the device has to activate again', { deviceId });
    return 'inactive';
  } catch (error) {
    log('warn', 'reconciliation: device not compared', { deviceId, ...describeError(error) });
    return 'failed';
  }
}

type ReconciledDevices = z.infer<typeof reconciledDevicesSchema>;

/** Has the devices compare themselves with D1; where it has no record they plan their end as they do by themselves. */
export async function reconcileDevices(context: ServiceContext, deviceIds: string[]): Promise<ReconciledDevices> {
  const found: ReconciledDevices = { recorded: 0, absent: 0, failed: 0, unrecorded: [], withoutProduct: [] };
  const ids = [...new Set(deviceIds)];
  for (let at = 0; at < ids.length; at += comparedAtOnce) {
    const some = ids.slice(at, at + comparedAtOnce);
    const answers = await Promise.all(some.map((deviceId) => checkRecord(context, deviceId)));
    for (const [index, answer] of answers.entries()) {
      const deviceId = some[index] ?? '';
      if (answer === 'unrecorded' || answer === 'withoutProduct') found[answer].push(deviceId);
      else found[answer] += 1;
    }
  }
  return found;
}

async function checkRecord(context: ServiceContext, deviceId: string): Promise<keyof ReconciledDevices> {
  try {
    return await callDevice(context.env, deviceId, 'checkRecord', 'idempotent', (device) => device.checkRecord());
  } catch (error) {
    log('warn', 'reconciliation: device not compared', { deviceId, ...describeError(error) });
    return 'failed';
  }
}

function toIso(timeMs: number): string {
  return new Date(timeMs).toISOString();
}
