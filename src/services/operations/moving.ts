// Export and import of a whole deployment for an operator, page by page: rows of D1, and with users and devices what their objects
// have. An import never changes what is there. It repairs nothing and knows no file: dev/moving.ts seals and compares files.
import { listRows, compareRows, insertRows } from '../../db/moving.ts';
import { countUsers } from '../../db/accounts/operator.ts';
import type { ServiceContext } from '../../context.ts';
import { log } from '../../log.ts';
import { callDevice, callFleetDirectory, callInbox, callWebhook, resultOr } from '../../objects/calls/stubs.ts';
import type { DeviceRecord } from '../../objects/device/device-session.ts';
import {
  linesPerPage,
  movedTables,
  type ImportBody,
  type Imported,
  type MovedLine,
  type MovedPlace,
  type MovedRow,
  type MovedTable,
} from '../../protocol/operator.ts';
import type { NoticeSettings } from '../../protocol/http/notices.ts';
import type { Webhook } from '../../domain/webhooks/webhooks.ts';
import type { ExportedSettings } from '../../objects/webhooks/webhook-endpoint.ts';
import { noticesOf } from '../notices.ts';
import { setTelling } from '../webhooks.ts';

const [first] = movedTables;
/** Presence is not moved. */
const offline = 2;
type UserRecord = {
  settings: NoticeSettings;
  webhooks: Webhook[];
  webhookSecrets: Record<string, ExportedSettings>;
};

export async function exportPage(context: ServiceContext, { after }: { after: MovedPlace | null }) {
  const { in: table, at } = after ?? { in: first, at: 0 };
  const rows = await listRows(context.primary(), table, at, linesPerPage);
  const lines = await Promise.all(
    rows.map(async ({ at, row }): Promise<MovedLine> => {
      if (row['connection_status'] === 1) row['connection_status'] = offline;
      const record = await exportRecord(context, table, row);
      return { in: table, at, row, ...(record && { record }) };
    }),
  );
  log('warn', 'operator: export', { table, at, lines: lines.length });
  const last = lines.length < linesPerPage ? undefined : lines.at(-1);
  const following = movedTables[movedTables.indexOf(table) + 1];
  const next = last ? { in: table, at: last.at } : following ? { in: following, at: 0 } : null;
  return { lines, next };
}

async function exportRecord(
  { env }: ServiceContext,
  table: MovedTable,
  row: MovedRow,
): Promise<DeviceRecord | UserRecord | null> {
  if (table === 'devices') return callDevice(env, String(row['device_id']), 'idempotent').exportRecord();
  if (table !== 'users') return null;
  const userId = Number(row['id']);
  const [webhooks, { settings }] = await Promise.all([
    callFleetDirectory(env, userId, 'idempotent').listWebhooks(),
    callInbox(env, userId, 'idempotent').read(),
  ]);
  const secrets = webhooks.map(async ({ webhookId }) => {
    return [webhookId, await callWebhook(env, webhookId, 'idempotent').exportSettings()] as const;
  });
  return { settings, webhooks, webhookSecrets: Object.fromEntries(await Promise.all(secrets)) };
}

/** @throws RefusedError invalid_input for a page that fits no table; what it wrote before can be sent again */
export async function importPage(context: ServiceContext, { isTrial, lines }: ImportBody): Promise<Imported> {
  const db = context.primary();
  const outcomes = new Map<MovedLine, string>();
  for (const [table, own] of Map.groupBy(lines, (line) => line.in)) {
    const rows = own.map(({ row }) => row);
    const before = await compareRows(db, table, rows);
    const absent = own.filter((_, index) => before[index] === 'absent');
    if (!isTrial && absent.length > 0) {
      // Before the row: a user whose row is there is not written again.
      if (table === 'users') await Promise.all(absent.map((line) => importUser(context, line)));
      await insertRows(
        db,
        table,
        absent.map(({ row }) => row),
      );
    }
    const after = isTrial ? before : await compareRows(db, table, rows);
    const ended = own.map(async (line, index) => {
      const finding = {
        same: before[index] === 'absent' ? 'taken' : 'there',
        differs: 'differs',
        absent: 'name taken',
      };
      const ofRow = finding[after[index] ?? 'absent'];
      const isDevice = table === 'devices' && after[index] === 'same' && !isTrial;
      outcomes.set(line, isDevice ? await importDevice(context, line, ofRow) : ofRow);
    });
    await Promise.all(ended);
  }
  const count = (wanted: string) => lines.filter((line) => outcomes.get(line) === wanted).length;
  const refused = lines.flatMap((line, index) => {
    const problem = outcomes.get(line) ?? 'absent';
    return problem === 'taken' || problem === 'there' ? [] : [{ index, problem }];
  });
  const { enabled, disabled } = await countUsers(db);
  const imported = { taken: count('taken'), there: count('there'), refused, users: enabled + disabled };
  log('warn', 'operator: import', { isTrial, ...imported, refused: refused.length });
  return imported;
}

async function importDevice({ env }: ServiceContext, { row, record }: MovedLine, ofRow: string): Promise<string> {
  if (record === undefined) return ofRow;
  const [projectionVersion, membersVersion] = [Number(row['projection_version']), Number(row['members_version'])];
  const device = callDevice(env, String(row['device_id']), 'idempotent');
  // Its slices are as its object wrote them: what does not fit makes the object fail.
  const imported = device.importRecord(record as DeviceRecord, projectionVersion, membersVersion);
  return resultOr('unreadable', imported);
}

async function importUser(context: ServiceContext, { row, record }: MovedLine): Promise<void> {
  const userId = Number(row['id']);
  const { settings, webhooks, webhookSecrets } = record as UserRecord;
  await noticesOf(context, userId).writeSettings(settings);
  for (const webhook of webhooks) {
    const { webhookId, url } = webhook;
    const secrets = webhookSecrets[webhookId];
    if (secrets) await callWebhook(context.env, webhookId, 'idempotent').importSettings(userId, url, secrets);
    await callFleetDirectory(context.env, userId, 'idempotent').putWebhook(userId, webhook, Infinity);
  }
  if (row['disabled_at'] !== null) await setTelling(context, userId, 'off');
}
