// Whose a device is, over HTTP: claim tokens, release, transfer, pairing window. Parse, one service call, answer.
import { confirmedFor, inPersonFor, signedInFor } from '../../http/authenticate.ts';
import { answer, callerErrors, declaring, deviceErrors, sessionErrors, signedInErrors } from '../../http/envelope.ts';
import { jsonBody, createRouter, routesAbout, paged } from '../../http/router.ts';
import * as schemas from '../../protocol/http/ownership.ts';
import * as ownership from '../../services/devices/ownership.ts';

const route = routesAbout('Ownership');
const mayAnswer = declaring(inPersonFor('answerOffers'), ...signedInErrors);
const mayTransfer = declaring(inPersonFor('transfer'), ...deviceErrors);
const mayReadClaim = declaring(signedInFor('claimDevices'), 'unauthorized', 'forbidden', 'not_found');
const mayClaim = declaring(signedInFor('claimDevices'), ...callerErrors, 'too_many_claim_tokens', 'invalid_claim_code');
const mayRead = declaring(inPersonFor('transfer'), ...sessionErrors);
const mayPass = declaring(confirmedFor('transfer'), ...deviceErrors, 'confirmation_required', 'device_not_activated');
const mayUndo = declaring(inPersonFor('undoClaim'), ...sessionErrors);
const mayPair = declaring(signedInFor('pair'), ...sessionErrors);
const mayOpen = declaring(signedInFor('pair'), ...sessionErrors, 'too_many_claim_tokens');
const offeringErrors = ['email_not_verified', 'too_many_transfers'] as const;
const offeredErrors = ['not_found', 'device_not_found'] as const;

/** Below `/claim-tokens`: below `/devices` its token would be read as a device id. */
export const claimTokenRoutes = createRouter().openapi(
  route('get', '/{token}', mayReadClaim('Read which device came with a claim token', schemas.claimStateSchema)),
  (c) => answer(c, ownership.describeClaimToken(c.var.context, c.var.caller, c.req.valid('param').token)),
);

export const deviceOwnershipRoutes = createRouter()
  .openapi(
    route('post', '/claim-tokens', {
      ...mayClaim('Make a token that makes you the owner of what activates with it', schemas.claimTokenSchema),
      description:
        'Give the device `apiUrl` in place of the service address. The token works for the first serial number that uses it, ' +
        'as often as that one has to repeat its activation, until it expires. A serial number with a claim code needs a token ' +
        'that was made with `deviceSN`, `claimCode` and `productKey`.',
      request: { body: jsonBody(schemas.claimTokenBodySchema, { isRequired: false }) },
    }),
    (c) => answer(c, ownership.requestClaimToken(c.var.context, c.var.caller, c.req.valid('json'))),
  )
  .openapi(
    route('get', '/transfers', {
      ...paged(mayAnswer('List devices that others offer to you, newest first', schemas.incomingOfferPageSchema)),
    }),
    (c) => answer(c, ownership.pageOffers(c.var.context, c.var.caller.userId, c.req.valid('query'))),
  )
  .openapi(
    route('get', '/{deviceId}/ownership', {
      ...mayRead('Read since when a device is claimed, its pairing window and its offer', schemas.ownershipSchema),
    }),
    (c) => answer(c, ownership.readOwnership(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  )
  .openapi(
    route('post', '/{deviceId}/release', {
      ...mayPass('Give a device up', schemas.passedDeviceSchema),
      description:
        "It belongs to its product's owner again and can be claimed by anybody who has it. Its credentials and sessions end at " +
        'once; history, events, properties and commands are erased.',
    }),
    (c) => answer(c, ownership.releaseDevice(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  )
  .openapi(
    route('delete', '/{deviceId}/claim', {
      ...mayUndo("Undo another user's claim of a device of your product, for 14 days", schemas.passedDeviceSchema),
      description:
        'It is as after a release: it belongs to you, can be claimed again, and has forgotten the user who claimed it.',
    }),
    (c) => answer(c, ownership.undoClaim(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  )
  .openapi(
    route('post', '/{deviceId}/transfer', {
      ...mayPass('Offer a device to another user, for seven days', schemas.offerSchema, ...offeringErrors),
      description:
        'The answer does not tell whether the e-mail has an account. A second offer takes the place of the first.',
      request: { body: jsonBody(schemas.offerBodySchema) },
    }),
    (c) => {
      const { email } = c.req.valid('json');
      return answer(c, ownership.offerDevice(c.var.context, c.var.caller, c.req.valid('param').deviceId, email));
    },
  )
  .openapi(
    route('delete', '/{deviceId}/transfer', {
      ...mayTransfer('Withdraw the offer of a device', schemas.passedDeviceSchema, 'not_found', 'device_not_activated'),
    }),
    (c) => answer(c, ownership.withdrawOffer(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  )
  .openapi(
    route('post', '/{deviceId}/transfer/accept', {
      ...mayAnswer('Accept a device that is offered to you', schemas.acceptedDeviceSchema, ...offeredErrors),
      description:
        'It is yours at once and goes on working with the messaging password that it uses, unless a person was shown it: then ' +
        '`mustRenew`. All others end. What it remembers of its former owner is erased.',
    }),
    (c) => answer(c, ownership.answerOffer(c.var.context, c.var.caller.userId, c.req.valid('param').deviceId, true)),
  )
  .openapi(
    route('post', '/{deviceId}/transfer/decline', {
      ...mayAnswer('Decline a device that is offered to you', schemas.passedDeviceSchema, ...offeredErrors),
    }),
    (c) => answer(c, ownership.answerOffer(c.var.context, c.var.caller.userId, c.req.valid('param').deviceId, false)),
  )
  .openapi(
    route('post', '/{deviceId}/pairing-window', {
      ...mayOpen('Let a device activate again, for fifteen minutes', schemas.openPairingWindowSchema),
      description:
        'For a device that was reset, if only its owner can pair it again (`reactivation`). It admits your own network, and ' +
        'closes when the device logs in. From other networks the device activates at `apiUrl`, with a claim token of its own.',
      request: { body: jsonBody(schemas.pairingWindowBodySchema, { isRequired: false }) },
    }),
    (c) => {
      const { anyNetwork = false } = c.req.valid('json');
      const { deviceId } = c.req.valid('param');
      return answer(c, ownership.openPairingWindow(c.var.context, c.var.caller, deviceId, anyNetwork));
    },
  )
  .openapi(
    route('delete', '/{deviceId}/pairing-window', {
      ...mayPair('Close the pairing window of a device', schemas.pairingWindowSchema),
    }),
    (c) => answer(c, ownership.closePairingWindow(c.var.context, c.var.caller, c.req.valid('param').deviceId)),
  );
