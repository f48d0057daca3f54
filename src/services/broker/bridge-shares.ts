// The shares of the uplink, each with an active bridge of its own: which products a share has, and that its bridge is
// subscribed to a product before the product's devices can send. With one share there is nothing to do.
import { runInBackground } from '../../background.ts';
import type { Config } from '../../config.ts';
import { listProductKeys } from '../../db/products/products.ts';
import { rememberNewest } from '../../domain/newest.ts';
import { RefusedError } from '../../domain/refusal.ts';
import { bridgeLinkName, callBrokerLink, shareOfProduct } from '../../objects/calls/stubs.ts';
import { shareParameter } from '../../protocol/bridge.ts';
import type { ServiceContext } from '../../context.ts';

const pageSize = 1_000;
const maxServedProducts = 10_000;

/** Product keys that were served before, in this isolate: that does not end. */
const servedProducts = new Map<string, true>();

/** @throws RefusedError `invalid_input` */
export function readShare({ bridgeShares }: Config, given: string | null): number {
  if (given === null) return 0;
  if (/^\d{1,2}$/.test(given) && Number(given) < bridgeShares) return Number(given);
  throw new RefusedError({ kind: 'invalid_input', path: shareParameter, problem: 'there is no such share' });
}

/** @throws RefusedError `invalid_input` */
export async function pageProductsOfShare(context: ServiceContext, given: string | null, after: string | null) {
  const { bridgeShares } = context.config;
  const share = readShare(context.config, given);
  if (after !== null && !/^\d{1,15}$/.test(after)) {
    throw new RefusedError({ kind: 'invalid_input', path: 'after', problem: 'is not a number of the page before' });
  }
  const rows = await listProductKeys(context.primary(), Number(after ?? 0), pageSize);
  const productKeys = rows.flatMap(({ productKey }) =>
    shareOfProduct(productKey, bridgeShares) === share ? [productKey] : [],
  );
  return { productKeys, next: rows.length === pageSize ? (rows.at(-1)?.id ?? null) : null };
}

/** So that the first activation need not wait. */
export function announceProduct({ env, config }: ServiceContext, productKey: string): void {
  if (hasShares(config)) runInBackground('announce product', serveProduct(env, config, productKey));
}

/**
 * Before a device gets the credentials it could send with: what it sends where nobody is subscribed is lost.
 * @throws RefusedError `not_published` where no bridge can be reached, `object_failed`
 */
export async function requireServed({ env, config }: ServiceContext, productKey: string): Promise<void> {
  if (!hasShares(config) || (await serveProduct(env, config, productKey))) return;
  throw new RefusedError({ kind: 'not_published', because: 'no_bridge' });
}

function hasShares({ hasBroker, bridgeShares }: Config): boolean {
  return hasBroker && bridgeShares > 1;
}

async function serveProduct(env: Env, { bridgeShares }: Config, productKey: string): Promise<boolean> {
  if (servedProducts.has(productKey)) return true;
  const name = bridgeLinkName(shareOfProduct(productKey, bridgeShares));
  const serve = (link: { serveProduct: (productKey: string) => Promise<boolean> }) => link.serveProduct(productKey);
  const isServed = await callBrokerLink(env, 'serveProduct', 'idempotent', serve, name);
  if (isServed) rememberNewest(servedProducts, productKey, true, maxServedProducts);
  return isServed;
}
