// Export and import of a whole deployment for an operator, page by page: rows of D1, and with users and devices what their objects
// have. An import never changes what is there. It knows no file: dev/moving seals.
import { compareRows, insertRows, listRows } from '../../db/moving.ts';
import type { ServiceContext } from '../../context.ts';
import { invalidInput } from '../../domain/refusal.ts';
import type { Webhook } from '../../domain/webhooks/webhooks.ts';
import { log } from '../../log.ts';
import { callDevice, callFleetDirectory, callInbox, callWebhook, resultOr } from '../../objects/calls/stubs.ts';
import type { DeviceRecord } from '../../objects/device/device-session.ts';
import type { ExportedSettings } from '../../objects/webhooks/webhook-endpoint.ts';
import type { NoticeSettings } from '../../protocol/http/notices.ts';
import { linesPerPage, type Exported, type MovedLine, type MovedPlace } from '../../protocol/operator.ts';
import { noticesOf } from '../notices.ts';
import { setTelling } from '../webhooks.ts';

/** Presence is not moved. */
const [online, offline] = [1, 2];

type UserRecord = {
  settings: NoticeSettings;
  zone: string;
  webhooks: Webhook[];
  webhookSecrets: Record<string, ExportedSettings>;
};

export async function exportPage(context: ServiceContext, { after }: { after: MovedPlace | null }): Promise<Exported> {
  const { lines, next } = await listRows(context.primary(), after, linesPerPage);
  log('warn', 'operator: export', { ...after, lines: lines.length });
  const whole = lines.map(async (line): Promise<MovedLine> => {
    if (line.row['connection_status'] === online) line.row['connection_status'] = offline;
    const record = await exportRecord(context, line);
    return { ...line, ...(record && { record }) };
  });
  return { lines: await Promise.all(whole), next };
}

async function exportRecord(context: ServiceContext, { in: table, row }: MovedLine) {
  const { env } = context;
  if (table === 'devices') return callDevice(env, String(row['device_id']), 'idempotent').exportRecord();
  if (table !== 'users') return null;
  const userId = Number(row['id']);
  const webhooks = await callFleetDirectory(env, userId, 'idempotent').listWebhooks();
  const { settings } = await callInbox(env, userId, 'idempotent').read();
  const secrets = webhooks.map(async ({ webhookId }) => {
    return [webhookId, await callWebhook(env, webhookId, 'idempotent').exportSettings()] as const;
  });
  const { zone } = await noticesOf(context, userId).readZone();
  const webhookSecrets = Object.fromEntries(await Promise.all(secrets));
  return { settings, zone, webhooks, webhookSecrets } satisfies UserRecord;
}

/** @throws RefusedError invalid_input for a page that fits no table */
export async function importPage(context: ServiceContext, { lines }: { lines: MovedLine[] }) {
  const db = context.primary();
  const table = lines[0]?.in ?? '';
  if (lines.some((line) => line.in !== table)) throw invalidInput('lines', 'are of several tables');
  const rows = lines.map(({ row }) => row);
  const before = await compareRows(db, table, rows);
  const absent = lines.filter((_, index) => before[index] === 'absent');
  // Before its row: a user who is there keeps what the user has changed since.
  if (table === 'users') await Promise.all(absent.map((line) => importUser(context, line)));
  if (absent.length > 0) {
    const missing = absent.map(({ row }) => row);
    await insertRows(db, table, missing);
  }
  const after = await compareRows(db, table, rows);
  const taking = lines.map(async (line, index) => {
    if (after[index] !== 'same') return after[index] === 'absent' ? 'its name is taken' : 'differs from what is here';
    const record = table === 'devices' ? line.record : undefined;
    if (record !== undefined) return importDevice(context, line, record as DeviceRecord);
    return before[index] === 'absent' ? 'taken' : 'there';
  });
  const results = await Promise.all(taking);
  log('warn', 'operator: import', {
    table,
    lines: lines.length,
    taken: results.filter((one) => one === 'taken').length,
  });
  return { results };
}

/** Slices are as an object wrote them: what does not fit fails in the object. */
function importDevice({ env }: ServiceContext, { row }: MovedLine, record: DeviceRecord): Promise<string> {
  const versions = [Number(row['projection_version']), Number(row['members_version'])] as const;
  const device = callDevice(env, String(row['device_id']), 'idempotent');
  return resultOr('unreadable', device.importRecord(record, ...versions));
}

async function importUser(context: ServiceContext, { row, record }: MovedLine): Promise<void> {
  const userId = Number(row['id']);
  const { settings, zone, webhooks, webhookSecrets } = record as UserRecord;
  await noticesOf(context, userId).writeSettings(settings);
  await noticesOf(context, userId).writeZone(zone);
  for (const webhook of webhooks) {
    const { webhookId, url } = webhook;
    const secrets = webhookSecrets[webhookId] ?? { end: null, secrets: [] };
    await callWebhook(context.env, webhookId, 'idempotent').importSettings(userId, url, secrets);
    await callFleetDirectory(context.env, userId, 'idempotent').putWebhook(userId, webhook, Infinity);
  }
  if (row['disabled_at'] !== null) await setTelling(context, userId, 'off');
}
