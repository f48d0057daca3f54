// Has a product's changed settings delivered to the sessions of its devices, by the product's own object. D1 records the
// pending change together with the change itself, so that it outlives the request. Does not change products.
import { listChangedProducts } from '../../db/products/product-changes.ts';
import { unwrap } from '../../domain/refusal.ts';
import { callPropagator } from '../../objects/calls/stubs.ts';
import type { ServiceContext } from '../../context.ts';

/** One invocation may call 1 000 objects. A pending change that is not reached now is among the oldest soon. */
const productsPerRun = 500;

export async function admitProductChange({ env }: ServiceContext, productId: number): Promise<void> {
  unwrap(await callPropagator(env, productId, 'admitChange', 'once', (propagator) => propagator.admitChange()));
}

export async function propagateProductChange({ env }: ServiceContext, productId: number): Promise<void> {
  await callPropagator(env, productId, 'start', 'idempotent', (propagator) => propagator.start());
}

/** For changes whose request was cut off, or whose object failed: the oldest first, each by itself. */
export async function propagateProductChanges(context: ServiceContext): Promise<void> {
  const productIds = await listChangedProducts(context.primary(), productsPerRun);
  // A failed call has logged itself.
  await Promise.allSettled(productIds.map((productId) => propagateProductChange(context, productId)));
}
