// Serial numbers that a maker registers before their devices activate (decision: activation), with their claim codes; and the list
// of all serials of a product.
import type { z } from '@hono/zod-openapi';
import { createId } from '../../crypto/secrets.ts';
import { deleteSerial, findSerials, listSerials, putSerials, type NewSerial } from '../../db/devices/serials.ts';
import type { Actor } from '../../domain/access.ts';
import { nameOf } from '../../domain/names.ts';
import { offsetOf, pagedDevices, type PageRequest } from '../../domain/pagination.ts';
import { limitReached, RefusedError } from '../../domain/refusal.ts';
import type { ServiceContext } from '../../context.ts';
import type { ProductRow } from '../../db/products/products.ts';
import { serialEntrySchema, type SerialResult } from '../../protocol/http/serials.ts';
import { findOwnProduct } from '../products/products.ts';
import { toIso } from '../../domain/time.ts';
import { digestOfClaimCode } from './claim-tokens.ts';

const maxSerials = 1_000;
const serialsAtOnce = 50;

export async function registerSerials(
  context: ServiceContext,
  actor: Actor,
  productKey: string,
  serials: readonly unknown[],
) {
  const db = context.primary();
  const product = await findOwnProduct(db, actor, productKey, 'manageProducts');
  if (serials.length > maxSerials) {
    throw new RefusedError({
      kind: 'invalid_input',
      path: 'serials',
      problem: `must have at most ${maxSerials} items`,
    });
  }
  const wanted = new Map<string, Entry>();
  const lines = serials.map((entry, index) => {
    const line = index + 1;
    const { data } = serialEntrySchema.safeParse(typeof entry === 'string' ? { deviceSN: entry } : entry);
    if (data === undefined) return { line, deviceSN: null, problem: 'invalid' as const };
    const { deviceSN } = data;
    const problem = wanted.has(deviceSN) ? ('repeated' as const) : undefined;
    if (problem === undefined) wanted.set(deviceSN, data);
    return { line, deviceSN, problem };
  });
  const registered = await registerInSteps(context, product, [...wanted.values()]);
  const list = lines.map(({ line, deviceSN, problem }) => {
    const { deviceId = null, result = 'too_many_devices' } = registered.get(deviceSN ?? '') ?? {};
    return { line, deviceSN, deviceId, result: problem ?? result };
  });
  return { registered: list.filter(({ result }) => result === 'registered').length, list };
}

type Entry = z.infer<typeof serialEntrySchema>;

/** Without those that would be too many. */
async function registerInSteps(
  context: ServiceContext,
  { id, name, productKey }: ProductRow,
  wanted: readonly Entry[],
) {
  const db = context.primary();
  const registered = new Map<string, { deviceId: string; result: SerialResult }>();
  const rowOf = async ({ deviceSN, claimCode }: Entry) => ({
    deviceId: createId('dev_', 8),
    deviceSN,
    name: nameOf(name, deviceSN),
    claimCodeDigest: claimCode === undefined ? null : await digestOfClaimCode(productKey, deviceSN, claimCode),
  });
  for (let at = 0; at < wanted.length; at += serialsAtOnce) {
    const rows = await Promise.all(wanted.slice(at, at + serialsAtOnce).map(rowOf));
    const serials = rows.map(({ deviceSN }) => deviceSN);
    const before = await findSerials(db, id, serials);
    const missing = rows.filter(({ deviceSN }) => !before.has(deviceSN));
    const others = rows.filter((row) => row.claimCodeDigest !== null && before.has(row.deviceSN));
    await putSerials(db, id, { missing, others }, Date.now(), context.config.limits);
    const present = await findSerials(db, id, serials);
    for (const row of rows) {
      const found = present.get(row.deviceSN);
      if (found === undefined) continue;
      const result = resultOf(row, before.get(row.deviceSN)?.claimCodeDigest, found);
      registered.set(row.deviceSN, { deviceId: found.deviceId, result });
    }
  }
  return registered;
}

type Stored = Pick<NewSerial, 'deviceId' | 'claimCodeDigest'>;

function resultOf({ deviceId, claimCodeDigest: code }: Stored, before: string | null | undefined, found: Stored) {
  if (found.deviceId === deviceId) return 'registered';
  if (code === null || code === before) return 'exists';
  return code === found.claimCodeDigest ? 'code_set' : 'code_not_set';
}

export async function pageSerials(context: ServiceContext, actor: Actor, productKey: string, page: PageRequest) {
  const db = context.primary();
  const product = await findOwnProduct(db, actor, productKey, 'manageProducts');
  if (offsetOf(page) >= pagedDevices) throw limitReached('pagedDevices', pagedDevices);
  const { total, rows } = await listSerials(db, product.id, page);
  const list = rows.map(
    ({ deviceSN, deviceId, registeredAt, activatedAt, claimedAt, claimCodeDigest, isDisabled }) => ({
      deviceSN,
      deviceId,
      registeredAt: toIso(registeredAt),
      activatedAt: toIso(activatedAt),
      isClaimed: claimedAt !== null,
      hasClaimCode: claimCodeDigest !== null,
      isDisabled,
    }),
  );
  return { list, total, ...page };
}

export async function removeSerial(context: ServiceContext, actor: Actor, productKey: string, deviceSN: string) {
  const db = context.primary();
  const product = await findOwnProduct(db, actor, productKey, 'manageProducts');
  if (await deleteSerial(db, product.id, deviceSN)) return { deviceSN };
  if ((await findSerials(db, product.id, [deviceSN])).size === 0) {
    throw new RefusedError({ kind: 'not_found', what: 'serial', id: deviceSN });
  }
  throw new RefusedError({ kind: 'invalid_input', path: 'deviceSN', problem: 'has activated: delete the device' });
}
