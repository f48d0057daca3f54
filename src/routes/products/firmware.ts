// Keys, firmware and campaigns of a product over HTTP: parse, one service call, answer.
import type { Context } from 'hono';
import { signedInFor } from '../../http/authenticate.ts';
import { answer, callerErrors, declaring } from '../../http/envelope.ts';
import { createRouter, jsonBody, paged, routesAbout, type AppEnv } from '../../http/router.ts';
import * as schemas from '../../protocol/http/firmware.ts';
import { firmwareOf } from '../../services/products/firmware.ts';

const route = routesAbout('Firmware');
const mayRead = declaring(signedInFor('readProducts'), ...callerErrors, 'not_found');
const mayManage = declaring(signedInFor('manageProducts'), ...callerErrors, 'not_found');

const of = (c: Context<AppEnv>, action: 'readProducts' | 'manageProducts') =>
  firmwareOf(c.var.context, c.var.caller, c.req.param('productKey') ?? '', action);
const reading = (c: Context<AppEnv>) => of(c, 'readProducts');
const managing = (c: Context<AppEnv>) => of(c, 'manageProducts');

const firmware = '/{productKey}/firmware';
const campaigns = '/{productKey}/campaigns';

export const productFirmwareRoutes = createRouter()
  .openapi(
    route('get', `${firmware}-keys`, mayRead('List the keys that sign firmware', schemas.firmwareKeysSchema)),
    async (c) => answer(c, (await reading(c)).listKeys()),
  )
  .openapi(
    route('post', `${firmware}-keys`, {
      ...mayManage('Add a key that signs firmware', schemas.firmwareKeySchema, 'too_many_firmware_keys'),
      description: 'The public one, of at most four. The service can sign nothing.',
      request: { body: jsonBody(schemas.firmwareKeyBodySchema) },
    }),
    async (c) => answer(c, (await managing(c)).addKey(c.req.valid('json').publicKey)),
  )
  .openapi(
    route('delete', `${firmware}-keys/{firmwareKeyId}`, mayManage('Remove a key', schemas.removedKeySchema)),
    async (c) => answer(c, (await managing(c)).removeKey(c.req.valid('param').firmwareKeyId)),
  )
  .openapi(
    route('get', firmware, mayRead('List the firmware of a product, newest first', schemas.firmwareListSchema)),
    async (c) => answer(c, (await reading(c)).list()),
  )
  .openapi(
    route('post', firmware, {
      ...mayManage('Add firmware', schemas.firmwareSchema, 'invalid_firmware', 'firmware_exists', 'too_much_firmware'),
      description: 'Refused unless one of the keys of the product signed its manifest. Then put its image.',
      request: { body: jsonBody(schemas.firmwareBodySchema) },
    }),
    async (c) => answer(c, (await managing(c)).add(c.req.valid('json'))),
  )
  .openapi(
    route('put', `${firmware}/{version}/image`, {
      ...mayManage('Store the image of firmware', schemas.firmwareSchema, 'invalid_firmware'),
      description: 'The bytes themselves, with their `Content-Length`.',
      request: { body: schemas.imageBody },
    }),
    async (c) => {
      const bytes = Number(c.req.header('Content-Length') ?? Number.NaN);
      return answer(c, (await managing(c)).putImage(c.req.valid('param').version, c.req.raw.body, bytes));
    },
  )
  .openapi(
    route(
      'delete',
      `${firmware}/{version}`,
      mayManage('Delete firmware', schemas.removedFirmwareSchema, 'firmware_in_use'),
    ),
    async (c) => answer(c, (await managing(c)).remove(c.req.valid('param').version)),
  )
  .openapi(
    route(
      'get',
      campaigns,
      paged(mayRead('List the campaigns of a product, newest first', schemas.campaignPageSchema)),
    ),
    async (c) => answer(c, (await reading(c)).listCampaigns(c.req.valid('query'))),
  )
  .openapi(
    route('post', campaigns, {
      ...mayManage(
        'Offer firmware to the devices of a product, wave by wave',
        schemas.campaignSchema,
        ...(['campaign_open', 'invalid_firmware', 'too_many_campaigns'] as const),
      ),
      description:
        'One at a time. It begins with named devices or at most 1 percent, and pauses itself if a wave goes wrong.',
      request: { body: jsonBody(schemas.campaignBodySchema) },
    }),
    async (c) => answer(c, (await managing(c)).startCampaign(c.req.valid('json'))),
  )
  .openapi(
    route('get', `${campaigns}/{campaignId}`, paged(mayRead('Read how far a campaign is', schemas.campaignViewSchema))),
    async (c) => answer(c, (await reading(c)).readCampaign(c.req.valid('param').campaignId, c.req.valid('query'))),
  )
  .openapi(
    route('post', `${campaigns}/{campaignId}/{change}`, {
      ...mayManage('Pause, resume or stop a campaign', schemas.changedCampaignSchema, 'campaign_over'),
      description: 'From the next range on no device downloads.',
    }),
    async (c) => {
      const { campaignId, change } = c.req.valid('param');
      return answer(c, (await managing(c)).changeCampaign(campaignId, change));
    },
  );
