// Commands for many devices: the request becomes an order for the object of its run, which gives the commands. Rights are decided by
// each device. Somebody else's run is not found.
import type { ServiceContext } from '../context.ts';
import { createId, digestOf } from '../crypto/secrets.ts';
import { actorOf, type Actor } from '../domain/access.ts';
import { parseControl } from '../domain/control-command.ts';
import type { PageRequest } from '../domain/pagination.ts';
import { invalidInput, notFound, unwrap } from '../domain/refusal.ts';
import { callBulk } from '../objects/calls/stubs.ts';
import { startScene } from '../objects/calls/start-scene.ts';
import type { BulkOrder } from '../objects/bulk-run.ts';
import type { BulkBody, FleetBody } from '../protocol/http/bulk.ts';
import { deviceIdsOf } from './collections.ts';
import { findOwnProduct } from './products/products.ts';

type Items = Parameters<ReturnType<typeof callBulk>['start']>[1];

/** What `caller` asks of bulk runs. */
export function bulkOf(context: ServiceContext, caller: Actor) {
  const actor = actorOf(caller);

  /** The same key of a user is the same run. */
  const idOf = async (key: string | undefined) =>
    key === undefined ? createId('', 16) : (await digestOf(`bulk\n${actor.userId}\n${key}`)).slice(0, 16);

  /** `asked`: what has to be the same with the same key. */
  async function start(key: string | undefined, asked: unknown[], order: Partial<BulkOrder>, items: Items = []) {
    const bulkId = await idOf(key);
    const digest = await digestOf(JSON.stringify(asked));
    const defaults = { dryRun: false, maxInFlight: 100, scene: null, fleet: null };
    return unwrap(
      await callBulk(context.env, bulkId, 'idempotent').start({ ...defaults, ...order, actor, digest }, items),
    );
  }

  function find(bulkId: string) {
    if (!/^[0-9a-z]{16}$/.test(bulkId)) throw notFound('bulk', bulkId);
    return callBulk(context.env, bulkId, 'idempotent');
  }

  return {
    async command({ command, dryRun, maxInFlight, idempotencyKey: key, productKey, ...chosen }: BulkBody) {
      const params = unwrap(parseControl(command));
      const isOne = Object.values(chosen).filter((value) => value !== undefined).length === 1;
      if (!isOne) throw invalidInput('devices', 'either these, `groupId` or `tag`');
      if (productKey !== undefined && chosen.tag === undefined) throw invalidInput('productKey', 'only with `tag`');
      const { devices: deviceIds, ...others } = chosen;
      const choice = { deviceIds, ...others, productKey };
      const items = (await deviceIdsOf(context, actor, choice)).map((deviceId) => ({ deviceId, params }));
      const asked = [choice, Object.entries(params).sort(), dryRun, maxInFlight];
      return start(key, asked, { dryRun, maxInFlight }, items);
    },

    /** For the devices of a product that nobody has claimed. */
    async commandFleet(productKey: string, { command, dryRun, maxInFlight, idempotencyKey: key }: FleetBody) {
      const { id: productId } = await findOwnProduct(context.primary(), actor, productKey, 'control');
      const params = unwrap(parseControl(command));
      const asked = [productId, Object.entries(params).sort(), dryRun, maxInFlight];
      return start(key, asked, { dryRun, maxInFlight, fleet: { productId, params } });
    },

    async runScene(sceneId: string, key: string | undefined) {
      return unwrap(await startScene(context.env, context.primary(), actor, sceneId, await idOf(key)));
    },

    async read(bulkId: string, { wait, ...page }: PageRequest & { wait?: number | undefined }) {
      return unwrap(await find(bulkId).view(actor, page, wait));
    },

    async pause(bulkId: string, paused: boolean) {
      unwrap(await find(bulkId).pause(actor, paused));
      return { bulkId, paused };
    },
  };
}
