// The product catalogue of one user: changing it, and starting the delivery of a change to devices, which ProductPropagator does.
// Somebody else's product is forbidden, one that does not exist is not found.
import { runInBackground, type ServiceContext } from '../../context.ts';
import type { Database } from '../../db/client.ts';
import * as records from '../../db/products/products.ts';
import { requireRightOfKey, type Actor } from '../../domain/access.ts';
import { dateOf } from '../../domain/device/times/calendar.ts';
import { rangeOf } from '../../domain/device/usage/views.ts';
import { productFacts } from '../../domain/device/ownership/ownership.ts';
import { credentialRefused, invalidInput, limitReached, notFound, RefusedError, unwrap } from '../../domain/refusal.ts';
import { isProductKey } from '../../domain/topics.ts';
import type { RangeQuery } from '../../protocol/http/usage.ts';
import type { CreateProductBody, ProductsQuery, UpdateProductBody } from '../../protocol/http/products.ts';
import { dayMs, toIso } from '../../domain/time.ts';
import { costs, holdToUserRate } from '../../pacing/rate-limits.ts';
import { callPropagator } from '../../objects/calls/stubs.ts';

export async function createProduct(context: ServiceContext, actor: Actor, body: CreateProductBody) {
  requireRightOfKey(actor, 'manageProducts', body.productKey);
  const ownerId = actor.userId;
  const database = context.primary();
  const nowMs = Date.now();
  const product = { ...body, ownerId, createdAt: nowMs, updatedAt: nowMs };
  const inserted = await records.insertProduct(database, product, context.config.limits);
  if (inserted === 'no_owner') throw new RefusedError(credentialRefused('session', 'unknown_account'));
  if (inserted === 'key_taken') throw new RefusedError({ kind: 'name_taken', name: 'product_key' });
  if ('limit' in inserted) throw limitReached(inserted.limit.name, inserted.limit.max);
  return { productId: inserted.id, productKey: body.productKey, name: body.name };
}

export async function pageProducts(context: ServiceContext, actor: Actor, { category, ...page }: ProductsQuery) {
  if (actor.deviceIds) return { list: [], total: 0, ...page };
  // Forms send an empty filter for none; no product has an empty category.
  const wanted = category === '' ? undefined : category;
  const filter = { ownerId: actor.userId, productKey: actor.productKey ?? undefined, category: wanted };
  const { total, rows } = await records.listProducts(context.replica(), filter, page);
  return { list: rows.map(describeProduct), total, ...page };
}

export async function readProduct(context: ServiceContext, actor: Actor, productKey: string) {
  return describeProduct(await findOwnProduct(context.primary(), actor, productKey, 'readProducts'));
}

export async function readProductFigures(context: ServiceContext, actor: Actor, productKey: string) {
  const database = context.primary();
  const { id } = await findOwnProduct(database, actor, productKey, 'readProducts');
  return records.readFigures(database, id, Math.floor(Date.now() / dayMs));
}

export async function readProductUsage(context: ServiceContext, actor: Actor, productKey: string, query: RangeQuery) {
  const database = context.primary();
  const { id } = await findOwnProduct(database, actor, productKey, 'readProducts');
  const { first, last } = unwrap(rangeOf(query, Math.floor(Date.now() / dayMs)));
  const rows = await records.listProductUsage(database, id, first, last);
  return { list: rows.map(({ day, ...sums }) => ({ date: dateOf(day), ...sums })) };
}

export async function changeProduct(
  context: ServiceContext,
  actor: Actor,
  { productKey }: { productKey: string },
  { productKey: givenKey, ...changes }: UpdateProductBody,
) {
  const database = context.primary();
  const product = await findOwnProduct(database, actor, productKey, 'manageProducts');
  if (givenKey !== undefined && givenKey !== productKey) throw invalidInput('productKey', 'cannot be changed');
  const isForDevices = productFacts.some((name) => changes[name] !== undefined);
  if (isForDevices) {
    await holdToUserRate(context, actor.userId, 'write', costs.productChange - 1);
    unwrap(await callPropagator(context.env, product.id, 'once').admitChange());
  }
  const change = { ...changes, updatedAt: Date.now() };
  const changed = await records.updateProduct(database, product.id, change, isForDevices);
  if (changed === undefined) throw notFound('product', productKey);
  const propagator = callPropagator(context.env, product.id, 'idempotent');
  if (isForDevices) runInBackground('propagate product change', propagator.start());
  return describeProduct(changed);
}

export async function removeProduct(context: ServiceContext, actor: Actor, productKey: string) {
  const database = context.primary();
  const product = await findOwnProduct(database, actor, productKey, 'manageProducts');
  if (await records.deleteProduct(database, product.id, Date.now())) return { productKey };
  await findOwnProduct(database, actor, productKey, 'manageProducts');
  throw new RefusedError({ kind: 'product_has_devices', productKey });
}

export async function findOwnProduct(
  database: Database,
  actor: Actor,
  productKey: string,
  action: 'readProducts' | 'manageProducts' | 'control',
): Promise<records.ProductRow> {
  const product = isProductKey(productKey) ? await records.findProduct(database, productKey) : undefined;
  if (product === undefined) throw notFound('product', productKey);
  if (product.ownerId !== actor.userId) throw new RefusedError({ kind: 'not_owner', of: 'product', id: productKey });
  requireRightOfKey(actor, action, productKey);
  return product;
}

/** To its owner all of it, but whose it is. */
function describeProduct({
  id: productId,
  ownerId: _owner,
  projectId: _project,
  deletedAt: _deleted,
  ...row
}: records.ProductRow) {
  return { productId, ...row, createdAt: toIso(row.createdAt), updatedAt: toIso(row.updatedAt) };
}

/** One invocation may call 1 000 objects. A pending change that is not reached now is among the oldest soon. */
const productsPerRun = 500;

export async function propagateProductChanges({ env, primary }: ServiceContext): Promise<void> {
  const productIds = await records.listChangedProducts(primary(), productsPerRun);
  await Promise.allSettled(productIds.map((productId) => callPropagator(env, productId, 'idempotent').start()));
}
