// Webhooks of a user: made and moved with the receiver's consent, listed, tested, deleted. The user's directory has them and tells
// devices about them; the endpoint's object sends, and has the secrets. D1 has nothing of them.
import type { ServiceContext } from '../context.ts';
import { createId } from '../crypto/secrets.ts';
import { inPerson, requireRightOfKey, type Actor } from '../domain/access.ts';
import { pageOf } from '../domain/device/core/views.ts';
import type { PageRequest } from '../domain/pagination.ts';
import { invalidInput, limitReached, notFound, unwrap } from '../domain/refusal.ts';
import { toIso } from '../domain/time.ts';
import { findAddressProblem } from '../domain/webhooks/address.ts';
import type { Webhook } from '../domain/webhooks/webhooks.ts';
import { callFleetDirectory, callInbox, callWebhook } from '../objects/calls/stubs.ts';
import { holdToShield } from '../pacing/rate-limits.ts';
import type { RedeliveryBody, WebhookBody, WebhookChange } from '../protocol/http/webhooks.ts';
import { eventTypes } from '../protocol/vocabulary.ts';
import { recordSecurityEvent } from './accounts/security-events.ts';
import { decide } from './devices/device-access.ts';

const action = 'manageWebhooks';

/** What `actor` asks of its webhooks. A key that is held to a product sees those for this product alone. */
export function webhooksOf(context: ServiceContext, actor: Actor) {
  const { env, config } = context;
  const { userId } = actor;
  const endpointOf = (webhookId: string) => callWebhook(env, webhookId, 'idempotent');
  const directory = () => callFleetDirectory(env, userId, 'idempotent');
  /** The Worker sends to an address that the caller names. */
  const holdRequests = () => holdToShield(context, 'REGISTER_LIMIT', `webhooks of ${userId}`);

  async function find(webhookId: string): Promise<Webhook> {
    const webhook = (await directory().listWebhooks()).find((other) => other.webhookId === webhookId);
    if (webhook === undefined) throw notFound('webhook', webhookId);
    requireRightOfKey(actor, action, webhook.productKey ?? '');
    return webhook;
  }

  async function open(webhookId: string, url: string) {
    const problem = findAddressProblem(url, config.webhooksMayBeLocal);
    if (problem !== undefined) throw invalidInput('url', problem);
    await holdRequests();
    return unwrap(await callWebhook(env, webhookId, 'once').open(userId, url));
  }

  return {
    async create({ url, types, productKey, deviceIds }: WebhookBody) {
      requireRightOfKey(actor, action, productKey ?? '');
      const webhookId = createId('', 16);
      const { secret } = await open(webhookId, url);
      const facts = { url, types: eventTypes.filter((type) => types.includes(type)), productKey, deviceIds };
      const webhook = { webhookId, ...facts, disabledBecause: null, createdAtMs: Date.now() };
      if (!(await directory().putWebhook(userId, webhook, config.limits.webhooksPerUser))) {
        await endpointOf(webhookId).delete();
        throw limitReached('webhooksPerUser', config.limits.webhooksPerUser);
      }
      recordSecurityEvent(context, { userId, kind: 'webhook_made', detail: { webhookId } });
      return { ...viewOf(webhook), secret: secret ?? '' };
    },

    async list(page: PageRequest) {
      const webhooks = await directory().listWebhooks();
      const isSeen = ({ productKey }: Webhook) => (actor.productKey ?? productKey) === productKey;
      return pageOf(webhooks.filter(isSeen).map(viewOf), page);
    },

    async read(webhookId: string) {
      return viewOf(await find(webhookId));
    },

    /** Another address has to agree. So does one that was disabled: then it is enabled again. */
    async change(webhookId: string, change: WebhookChange) {
      const former = await find(webhookId);
      const { url = former.url, types = former.types } = change;
      const { productKey = former.productKey, deviceIds = former.deviceIds } = change;
      requireRightOfKey(actor, action, productKey ?? '');
      const isOpened = url !== former.url || former.disabledBecause !== null;
      if (isOpened) await open(webhookId, url);
      const facts = { url, types, productKey, deviceIds, ...(isOpened && { disabledBecause: null }) };
      const webhook = { ...former, ...facts };
      await directory().putWebhook(userId, webhook, Infinity);
      return viewOf(webhook);
    },

    async delete(webhookId: string) {
      await find(webhookId);
      await directory().removeWebhook(userId, webhookId);
      await endpointOf(webhookId).delete();
      return { webhookId };
    },

    async replaceSecret(webhookId: string) {
      await find(webhookId);
      const { secret } = unwrap(await callWebhook(env, webhookId, 'once').replaceSecret());
      return { webhookId, secret };
    },

    async test(webhookId: string) {
      await find(webhookId);
      await holdRequests();
      return unwrap(await callWebhook(env, webhookId, 'once').sendTest());
    },

    /** All events of the device from that number, as far as it still has them. */
    async redeliver(webhookId: string, { deviceId, from }: RedeliveryBody) {
      await find(webhookId);
      // The key gets to see nothing: the events go to the user's own receiver.
      const reader = { ...inPerson(userId), productKey: actor.productKey };
      await decide(context, deviceId, { kind: 'redelivery_requested', actor: reader, webhookId, from });
      return { webhookId, deviceId, from };
    },

    async listDeliveries(webhookId: string, page: PageRequest) {
      await find(webhookId);
      return pageOf(await endpointOf(webhookId).listDeliveries(), page);
    },
  };
}

/** Webhooks and notices of an account that is disabled or deleted, or enabled again. */
export async function setTelling({ env }: ServiceContext, userId: number, to: 'on' | 'off' | 'deleted') {
  const directory = callFleetDirectory(env, userId, 'idempotent');
  const inbox = callInbox(env, userId, 'idempotent');
  if (to === 'off') await inbox.unsubscribe();
  if (to === 'deleted') await inbox.delete();
  for (const { webhookId } of to === 'deleted' ? await directory.listWebhooks() : []) {
    await callWebhook(env, webhookId, 'idempotent').delete();
  }
  await directory.setAccount(userId, to);
}

function viewOf({ createdAtMs, ...webhook }: Webhook) {
  return { ...webhook, createdAt: toIso(createdAtMs) };
}
