// Whose a device is, over HTTP: claim tokens, release, transfer, pairing window. Parse, one service call, answer.
import { confirmedFor, inPersonFor, signedInFor } from '../../http/authenticate.ts';
import { answer, callerErrors, deviceErrors, responsesOf, sessionErrors, signedInErrors } from '../../http/envelope.ts';
import { jsonBody, createRouter, routesAbout } from '../../http/router.ts';
import { deviceIdParamSchema, pageQuerySchema } from '../../protocol/http/devices.ts';
import * as schemas from '../../protocol/http/ownership.ts';
import { describeClaimToken, requestClaimToken } from '../../services/devices/claim-tokens.ts';
import * as ownership from '../../services/devices/ownership.ts';

const route = routesAbout('Ownership');
const passingErrors = [...deviceErrors, 'confirmation_required', 'device_not_activated'] as const;

/** Below `/claim-tokens`: below `/devices` its token would be read as a device id. */
export const claimTokenRoutes = createRouter().openapi(
  route('get', '/{token}', {
    summary: 'Read which device came with a claim token',
    ...signedInFor('claimDevices'),
    request: { params: schemas.claimParamSchema },
    responses: responsesOf(schemas.claimStateSchema, 'unauthorized', 'forbidden', 'not_found'),
  }),
  (c) => answer(c, describeClaimToken(c.var.context, c.var.caller, c.req.valid('param').token)),
);

export const deviceOwnershipRoutes = createRouter()
  .openapi(
    route('post', '/claim-tokens', {
      summary: 'Make a token that makes you the owner of what activates with it',
      description:
        'Give the device `apiUrl` in place of the service address. The token works for the first serial number that uses it, ' +
        'as often as that one has to repeat its activation, until it expires. A serial number with a claim code needs a token ' +
        'that was made with `deviceSN`, `claimCode` and `productKey`.',
      ...signedInFor('claimDevices'),
      request: { body: jsonBody(schemas.claimTokenBodySchema, { isRequired: false }) },
      responses: responsesOf(schemas.claimTokenSchema, ...callerErrors, 'too_many_claim_tokens', 'invalid_claim_code'),
    }),
    (c) => answer(c, requestClaimToken(c.var.context, c.var.caller, c.req.valid('json'))),
  )
  .openapi(
    route('get', '/transfers', {
      summary: 'List devices that others offer to you, newest first',
      ...inPersonFor('answerOffers'),
      request: { query: pageQuerySchema },
      responses: responsesOf(schemas.incomingOfferPageSchema, ...signedInErrors),
    }),
    (c) => answer(c, ownership.pageOffers(c.var.context, c.var.caller.userId, c.req.valid('query'))),
  )
  .openapi(
    route('get', '/{deviceId}/ownership', {
      summary: 'Read since when a device is claimed, its pairing window and its offer',
      ...inPersonFor('transfer'),
      request: { params: deviceIdParamSchema },
      responses: responsesOf(schemas.ownershipSchema, ...sessionErrors),
    }),
    (c) => answer(c, ownership.readOwnership(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  )
  .openapi(
    route('post', '/{deviceId}/release', {
      summary: 'Give a device up',
      description:
        "It belongs to its product's owner again and can be claimed by anybody who has it. Its credentials and sessions end at " +
        'once; history, events, properties and commands are erased.',
      ...confirmedFor('transfer'),
      request: { params: deviceIdParamSchema },
      responses: responsesOf(schemas.passedDeviceSchema, ...passingErrors),
    }),
    (c) => answer(c, ownership.releaseDevice(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  )
  .openapi(
    route('delete', '/{deviceId}/claim', {
      summary: "Undo another user's claim of a device of your product, for 14 days",
      description:
        'It is as after a release: it belongs to you, can be claimed again, and has forgotten the user who claimed it.',
      ...inPersonFor('undoClaim'),
      request: { params: deviceIdParamSchema },
      responses: responsesOf(schemas.passedDeviceSchema, ...sessionErrors),
    }),
    (c) => answer(c, ownership.undoClaim(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  )
  .openapi(
    route('post', '/{deviceId}/transfer', {
      summary: 'Offer a device to another user, for seven days',
      description:
        'The answer does not tell whether the e-mail has an account. A second offer takes the place of the first.',
      ...confirmedFor('transfer'),
      request: { params: deviceIdParamSchema, body: jsonBody(schemas.offerBodySchema) },
      responses: responsesOf(schemas.offerSchema, ...passingErrors, 'email_not_verified', 'too_many_transfers'),
    }),
    (c) => {
      const { email } = c.req.valid('json');
      return answer(c, ownership.offerDevice(c.var.context, c.var.caller, c.req.valid('param').deviceId, email));
    },
  )
  .openapi(
    route('delete', '/{deviceId}/transfer', {
      summary: 'Withdraw the offer of a device',
      ...inPersonFor('transfer'),
      request: { params: deviceIdParamSchema },
      responses: responsesOf(schemas.passedDeviceSchema, ...deviceErrors, 'not_found', 'device_not_activated'),
    }),
    (c) => answer(c, ownership.withdrawOffer(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  )
  .openapi(
    route('post', '/{deviceId}/transfer/accept', {
      summary: 'Accept a device that is offered to you',
      description:
        'It is yours at once and goes on working with the messaging password that it uses, unless a person was shown it: then ' +
        '`mustRenew`. All others end. What it remembers of its former owner is erased.',
      ...inPersonFor('answerOffers'),
      request: { params: deviceIdParamSchema },
      responses: responsesOf(schemas.acceptedDeviceSchema, ...signedInErrors, 'not_found', 'device_not_found'),
    }),
    (c) => answer(c, ownership.answerOffer(c.var.context, c.var.caller.userId, c.req.valid('param').deviceId, true)),
  )
  .openapi(
    route('post', '/{deviceId}/transfer/decline', {
      summary: 'Decline a device that is offered to you',
      ...inPersonFor('answerOffers'),
      request: { params: deviceIdParamSchema },
      responses: responsesOf(schemas.passedDeviceSchema, ...signedInErrors, 'not_found', 'device_not_found'),
    }),
    (c) => answer(c, ownership.answerOffer(c.var.context, c.var.caller.userId, c.req.valid('param').deviceId, false)),
  )
  .openapi(
    route('post', '/{deviceId}/pairing-window', {
      summary: 'Let a device activate again, for fifteen minutes',
      description:
        'For a device that was reset, if only its owner can pair it again (`reactivation`). It admits your own network, and ' +
        'closes when the device logs in. From other networks the device activates at `apiUrl`, with a claim token of its own.',
      ...signedInFor('pair'),
      request: { params: deviceIdParamSchema, body: jsonBody(schemas.pairingWindowBodySchema, { isRequired: false }) },
      responses: responsesOf(schemas.openPairingWindowSchema, ...sessionErrors, 'too_many_claim_tokens'),
    }),
    (c) => {
      const { anyNetwork = false } = c.req.valid('json');
      const { deviceId } = c.req.valid('param');
      return answer(c, ownership.openPairingWindow(c.var.context, c.var.caller, deviceId, anyNetwork));
    },
  )
  .openapi(
    route('delete', '/{deviceId}/pairing-window', {
      summary: 'Close the pairing window of a device',
      ...signedInFor('pair'),
      request: { params: deviceIdParamSchema },
      responses: responsesOf(schemas.pairingWindowSchema, ...sessionErrors),
    }),
    (c) => answer(c, ownership.closePairingWindow(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  );
