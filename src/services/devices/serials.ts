// Serial numbers that a maker registers before their devices activate (decision: activation), and the list of all serials of a
// product.
import { createId } from '../../crypto/secrets.ts';
import { deleteSerial, findSerials, insertSerials, listSerials } from '../../db/devices/serials.ts';
import type { Actor } from '../../domain/access.ts';
import { nameOf } from '../../domain/names.ts';
import { offsetOf, pagedDevices, type PageRequest } from '../../domain/pagination.ts';
import { limitReached, RefusedError } from '../../domain/refusal.ts';
import { isDeviceSN } from '../../domain/topics.ts';
import type { ServiceContext } from '../../context.ts';
import { findOwnProduct } from '../products/products.ts';
import { toIso } from '../../domain/time.ts';

export type SerialResult = 'registered' | 'exists' | 'repeated' | 'invalid' | 'too_many_devices';

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
  const wanted = [...new Set(serials.filter(isDeviceSN))];
  const { deviceIds, made } = await registerInSteps(context, product, wanted);
  const seen = new Set<string>();
  const list = serials.map((serial, index) => {
    const line = index + 1;
    if (!isDeviceSN(serial)) return { line, deviceSN: null, deviceId: null, result: 'invalid' as SerialResult };
    const deviceId = deviceIds.get(serial) ?? null;
    const result = seen.has(serial) ? 'repeated' : resultOf(made.has(serial), deviceId);
    seen.add(serial);
    return { line, deviceSN: serial, deviceId, result };
  });
  return { registered: made.size, list };
}

async function registerInSteps(
  context: ServiceContext,
  product: { id: number; name: string },
  wanted: readonly string[],
) {
  const db = context.primary();
  const deviceIds = new Map<string, string>();
  const made = new Set<string>();
  for (let at = 0; at < wanted.length; at += serialsAtOnce) {
    const some = wanted.slice(at, at + serialsAtOnce);
    const before = await findSerials(db, product.id, some);
    const missing = some.filter((deviceSN) => !before.has(deviceSN));
    const rows = missing.map((deviceSN) => {
      return { deviceId: createId('dev_', 8), deviceSN, name: nameOf(product.name, deviceSN) };
    });
    const inserted = await insertSerials(db, product.id, rows, Date.now(), context.config.limits);
    for (const deviceSN of inserted) made.add(deviceSN);
    for (const [deviceSN, deviceId] of [...before, ...(await findSerials(db, product.id, missing))]) {
      deviceIds.set(deviceSN, deviceId);
    }
  }
  return { deviceIds, made };
}

export async function pageSerials(context: ServiceContext, actor: Actor, productKey: string, page: PageRequest) {
  const db = context.primary();
  const product = await findOwnProduct(db, actor, productKey, 'readProducts');
  if (offsetOf(page) >= pagedDevices) throw limitReached('pagedDevices', pagedDevices);
  const { total, rows } = await listSerials(db, product.id, page);
  const list = rows.map(({ deviceSN, deviceId, registeredAt, activatedAt, claimedAt, isDisabled }) => ({
    deviceSN,
    deviceId,
    registeredAt: toIso(registeredAt),
    activatedAt: toIso(activatedAt),
    isClaimed: claimedAt !== null,
    isDisabled,
  }));
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

function resultOf(isMade: boolean, deviceId: string | null): SerialResult {
  if (isMade) return 'registered';
  return deviceId === null ? 'too_many_devices' : 'exists';
}
