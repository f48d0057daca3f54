// Serial numbers that a maker registers before their devices activate (decision: activation), with their claim codes; and the list
// of all serials of a product.
import type { z } from '@hono/zod-openapi';
import { createId } from '../../crypto/secrets.ts';
import { deleteSerial, findSerials, listSerials, putSerials, type NewSerial } from '../../db/products/products.ts';
import type { Actor } from '../../domain/access.ts';
import { nameOf } from '../../domain/names.ts';
import { offsetOf, pagedDevices, type PageRequest } from '../../domain/pagination.ts';
import { invalidInput, limitReached, notFound } from '../../domain/refusal.ts';
import type { ServiceContext } from '../../context.ts';
import { serialEntrySchema, type SerialResult } from '../../protocol/http/products.ts';
import { findOwnProduct } from '../products/products.ts';
import { toIso } from '../../domain/time.ts';
import { digestOfClaimCode } from './ownership.ts';

const maxSerials = 1_000;

export async function registerSerials(
  context: ServiceContext,
  actor: Actor,
  { productKey }: { productKey: string },
  { serials }: { serials: readonly unknown[] },
) {
  const db = context.primary();
  const product = await findOwnProduct(db, actor, productKey, 'manageProducts');
  if (serials.length > maxSerials) {
    throw invalidInput('serials', `must have at most ${maxSerials} items`);
  }
  const wanted = new Map<string, z.infer<typeof serialEntrySchema>>();
  const lines = serials.map((entry, index) => {
    const line = index + 1;
    const { data } = serialEntrySchema.safeParse(typeof entry === 'string' ? { deviceSN: entry } : entry);
    if (data === undefined) return { line, deviceSN: null, problem: 'invalid' as const };
    const { deviceSN } = data;
    const problem = wanted.has(deviceSN) ? ('repeated' as const) : undefined;
    if (problem === undefined) wanted.set(deviceSN, data);
    return { line, deviceSN, problem };
  });
  const rowOf = async ({ deviceSN, claimCode }: z.infer<typeof serialEntrySchema>): Promise<NewSerial> => {
    const claimCodeDigest = claimCode === undefined ? null : await digestOfClaimCode(productKey, deviceSN, claimCode);
    return { deviceId: createId('dev_', 8), deviceSN, name: nameOf(product.name, deviceSN), claimCodeDigest };
  };
  const rows = await Promise.all([...wanted.values()].map(rowOf));
  const before = await findSerials(db, product.id, [...wanted.keys()]);
  const missing = rows.filter(({ deviceSN }) => !before.has(deviceSN));
  const others = rows.filter((row) => row.claimCodeDigest !== null && before.has(row.deviceSN));
  await putSerials(db, product.id, { missing, others }, Date.now(), context.config.limits);
  const after = await findSerials(db, product.id, [...wanted.keys()]);
  const results = new Map(rows.map((row) => [row.deviceSN, resultOf(row, before, after)]));
  const list = lines.map(({ line, deviceSN, problem }) => {
    const deviceId = after.get(deviceSN ?? '')?.deviceId ?? null;
    return { line, deviceSN, deviceId, result: problem ?? results.get(deviceSN) ?? 'invalid' };
  });
  return { registered: list.filter(({ result }) => result === 'registered').length, list };
}

type Found = Awaited<ReturnType<typeof findSerials>>;

function resultOf({ deviceSN, deviceId, claimCodeDigest: code }: NewSerial, before: Found, after: Found): SerialResult {
  const found = after.get(deviceSN);
  if (found === undefined) return 'too_many_devices';
  if (found.deviceId === deviceId) return 'registered';
  if (code === null || code === before.get(deviceSN)?.claimCodeDigest) return 'exists';
  return code === found.claimCodeDigest ? 'code_set' : 'code_not_set';
}

export async function pageSerials(context: ServiceContext, actor: Actor, productKey: string, page: PageRequest) {
  const db = context.primary();
  const product = await findOwnProduct(db, actor, productKey, 'manageProducts');
  if (offsetOf(page) >= pagedDevices) throw limitReached('pagedDevices', pagedDevices);
  const { total, rows } = await listSerials(db, product.id, page);
  const list = rows.map(({ registeredAt, activatedAt, claimedAt, claimCodeDigest, ...serial }) => ({
    ...serial,
    registeredAt: toIso(registeredAt),
    activatedAt: toIso(activatedAt),
    isClaimed: claimedAt !== null,
    hasClaimCode: claimCodeDigest !== null,
  }));
  return { list, total, ...page };
}

type SerialAddress = { productKey: string; deviceSN: string };

export async function removeSerial(context: ServiceContext, actor: Actor, { productKey, deviceSN }: SerialAddress) {
  const db = context.primary();
  const product = await findOwnProduct(db, actor, productKey, 'manageProducts');
  if (await deleteSerial(db, product.id, deviceSN)) return { deviceSN };
  if ((await findSerials(db, product.id, [deviceSN])).size === 0) throw notFound('serial', deviceSN);
  throw invalidInput('deviceSN', 'has activated: delete the device');
}
