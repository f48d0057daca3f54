// Whose a device is, over HTTP: claim tokens, release, transfer, pairing window. Parse, one service call, answer.
import { createRoute } from '@hono/zod-openapi';
import { inPersonFor, signedInFor } from '../../http/authenticate.ts';
import { readClientAddress } from '../../http/client-address.ts';
import { answer, deviceErrors, responsesOf } from '../../http/envelope.ts';
import { jsonBody } from '../../http/request-body.ts';
import { createRouter } from '../../http/router.ts';
import { deviceIdParamSchema, pageQuerySchema } from '../../protocol/http/devices.ts';
import {
  claimParamSchema,
  claimStateSchema,
  claimTokenBodySchema,
  claimTokenSchema,
  incomingOfferPageSchema,
  offerBodySchema,
  offerSchema,
  ownershipSchema,
  pairingWindowSchema,
  passedDeviceSchema,
} from '../../protocol/http/ownership.ts';
import { createClaimToken, describeClaimToken } from '../../services/devices/claim-tokens.ts';
import {
  answerOffer,
  offerDevice,
  pageOffers,
  readOwnership,
  releaseDevice,
  setPairingWindow,
  withdrawOffer,
} from '../../services/devices/ownership.ts';

const tags = ['Ownership'];
const refusals = [...deviceErrors] as const;

const claimTokenRoute = createRoute({
  method: 'post',
  path: '/claim-tokens',
  tags,
  summary: 'Make a token that makes you the owner of what activates with it',
  description:
    'Give the device `apiUrl` in place of the service address. The token works for the first serial number that uses it, ' +
    'as often as that one has to repeat its activation, until it expires.',
  ...signedInFor('claimDevices'),
  request: { body: jsonBody(claimTokenBodySchema, { isRequired: false }) },
  responses: responsesOf(claimTokenSchema, 'invalid_request', 'unauthorized', 'forbidden', 'too_many_claim_tokens'),
});

const claimStateRoute = createRoute({
  method: 'get',
  path: '/{token}',
  tags,
  summary: 'Read which device came with a claim token',
  ...signedInFor('claimDevices'),
  request: { params: claimParamSchema },
  responses: responsesOf(claimStateSchema, 'unauthorized', 'forbidden', 'not_found'),
});

const incomingRoute = createRoute({
  method: 'get',
  path: '/transfers',
  tags,
  summary: 'List devices that others offer to you, newest first',
  ...inPersonFor('answerOffers'),
  request: { query: pageQuerySchema },
  responses: responsesOf(incomingOfferPageSchema, 'invalid_request', 'unauthorized'),
});

const ownershipRoute = createRoute({
  method: 'get',
  path: '/{deviceId}/ownership',
  tags,
  summary: 'Read since when a device is claimed, its pairing window and its offer',
  ...inPersonFor('transfer'),
  request: { params: deviceIdParamSchema },
  responses: responsesOf(ownershipSchema, ...refusals, 'device_not_activated'),
});

const releaseRoute = createRoute({
  method: 'post',
  path: '/{deviceId}/release',
  tags,
  summary: 'Give a device up',
  description:
    "It belongs to its product's owner again and can be claimed by whoever has it. Its credentials and sessions end at " +
    'once; history, events, properties and commands are erased.',
  ...inPersonFor('transfer'),
  request: { params: deviceIdParamSchema },
  responses: responsesOf(passedDeviceSchema, ...refusals, 'device_not_activated'),
});

const offerRoute = createRoute({
  method: 'post',
  path: '/{deviceId}/transfer',
  tags,
  summary: 'Offer a device to another user, for seven days',
  description:
    'The answer does not tell whether the e-mail has an account. A second offer takes the place of the first.',
  ...inPersonFor('transfer'),
  request: { params: deviceIdParamSchema, body: jsonBody(offerBodySchema) },
  responses: responsesOf(offerSchema, ...refusals, 'device_not_activated', 'too_many_transfers'),
});

const withdrawRoute = createRoute({
  method: 'delete',
  path: '/{deviceId}/transfer',
  tags,
  summary: 'Withdraw the offer of a device',
  ...inPersonFor('transfer'),
  request: { params: deviceIdParamSchema },
  responses: responsesOf(passedDeviceSchema, ...refusals, 'not_found', 'device_not_activated'),
});

const acceptRoute = createRoute({
  method: 'post',
  path: '/{deviceId}/transfer/accept',
  tags,
  summary: 'Accept a device that is offered to you',
  description:
    'It is yours at once and goes on working with the messaging password that it uses; all others end. What it remembers of ' +
    'its former owner is erased.',
  ...inPersonFor('answerOffers'),
  request: { params: deviceIdParamSchema },
  responses: responsesOf(passedDeviceSchema, 'invalid_request', 'unauthorized', 'not_found', 'device_not_found'),
});

const declineRoute = createRoute({
  method: 'post',
  path: '/{deviceId}/transfer/decline',
  tags,
  summary: 'Decline a device that is offered to you',
  ...inPersonFor('answerOffers'),
  request: { params: deviceIdParamSchema },
  responses: responsesOf(passedDeviceSchema, 'invalid_request', 'unauthorized', 'not_found', 'device_not_found'),
});

const openWindowRoute = createRoute({
  method: 'post',
  path: '/{deviceId}/pairing-window',
  tags,
  summary: 'Let a device activate again, for fifteen minutes',
  description: 'For a device that was reset, where its product lets only its owner pair it again (`reactivation`).',
  ...signedInFor('pair'),
  request: { params: deviceIdParamSchema },
  responses: responsesOf(pairingWindowSchema, ...refusals, 'device_not_activated'),
});

const closeWindowRoute = createRoute({
  method: 'delete',
  path: '/{deviceId}/pairing-window',
  tags,
  summary: 'Close the pairing window of a device',
  ...signedInFor('pair'),
  request: { params: deviceIdParamSchema },
  responses: responsesOf(pairingWindowSchema, ...refusals, 'device_not_activated'),
});

/** Below `/claim-tokens`: below `/devices` its token would stand where device ids do. */
export const claimTokenRoutes = createRouter().openapi(claimStateRoute, async (c) =>
  answer(c, await describeClaimToken(c.var.context, c.var.caller, c.req.valid('param').token)),
);

export const deviceOwnershipRoutes = createRouter()
  .openapi(claimTokenRoute, async (c) => {
    const { origin } = new URL(c.req.url);
    const { expiresIn = 900 } = c.req.valid('json');
    return answer(c, await createClaimToken(c.var.context, c.var.caller, origin, expiresIn));
  })
  .openapi(incomingRoute, async (c) =>
    answer(c, await pageOffers(c.var.context, c.var.caller.userId, c.req.valid('query'))),
  )
  .openapi(ownershipRoute, async (c) =>
    answer(c, await readOwnership(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  )
  .openapi(releaseRoute, async (c) =>
    answer(c, await releaseDevice(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  )
  .openapi(offerRoute, async (c) => {
    const offered = { ...c.req.valid('json'), address: readClientAddress(c) };
    return answer(c, await offerDevice(c.var.context, c.var.caller, c.req.valid('param').deviceId, offered));
  })
  .openapi(withdrawRoute, async (c) => {
    const { deviceId } = c.req.valid('param');
    return answer(c, await withdrawOffer(c.var.context, c.var.caller, deviceId, readClientAddress(c)));
  })
  .openapi(acceptRoute, async (c) => {
    const given = { isAccepted: true, address: readClientAddress(c) };
    return answer(c, await answerOffer(c.var.context, c.var.caller.userId, c.req.valid('param').deviceId, given));
  })
  .openapi(declineRoute, async (c) => {
    const given = { isAccepted: false, address: readClientAddress(c) };
    return answer(c, await answerOffer(c.var.context, c.var.caller.userId, c.req.valid('param').deviceId, given));
  })
  .openapi(openWindowRoute, async (c) => {
    const asked = { isOpen: true, address: readClientAddress(c) };
    return answer(c, await setPairingWindow(c.var.context, c.var.caller, c.req.valid('param').deviceId, asked));
  })
  .openapi(closeWindowRoute, async (c) => {
    const asked = { isOpen: false, address: readClientAddress(c) };
    return answer(c, await setPairingWindow(c.var.context, c.var.caller, c.req.valid('param').deviceId, asked));
  });
