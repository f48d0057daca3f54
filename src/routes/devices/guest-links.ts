// Guest links as an owner makes, lists and revokes them. Parse, one service call, answer. What a guest sees is in
// guest-pages.ts.
import { signedInFor } from '../../http/authenticate.ts';
import { answer, commandErrors, declaring, deviceErrors } from '../../http/envelope.ts';
import { jsonBody, createRouter, paged, routesAbout } from '../../http/router.ts';
import * as schemas from '../../protocol/http/guest-links.ts';
import { makeGuestLink, pageGuestLinks, revokeGuestLink } from '../../services/devices/guest-links.ts';

const route = routesAbout('Sharing');

const mayShare = declaring(signedInFor('share'), ...deviceErrors);
const mayGive = declaring(signedInFor('share'), ...commandErrors, 'too_many_guest_links');

export const deviceGuestLinkRoutes = createRouter()
  .openapi(
    route('post', '/{deviceId}/guest-links', {
      ...mayGive('Make a guest link: an address that sends one command', schemas.newGuestLinkSchema),
      description:
        'Everybody who opens the address sees one button; pressing it sends the command. Nothing else can be done with it, and no ' +
        'account is needed. It ends when it is used up, has expired or is revoked, when the device is disabled, released, ' +
        'transferred or deleted. An API key needs `control` as well, and the link ends with the key.',
      request: { body: jsonBody(schemas.guestLinkBodySchema) },
    }),
    (c) => answer(c, makeGuestLink(c.var.context, c.var.caller, c.req.valid('param').deviceId, c.req.valid('json'))),
  )
  .openapi(
    route('get', '/{deviceId}/guest-links', {
      ...paged(mayShare('List the guest links of a device, newest first', schemas.guestLinkPageSchema)),
      description:
        'Links that have ended stay in the list until the next one is made. Each use is in the events of the device.',
    }),
    (c) => answer(c, pageGuestLinks(c.var.context, c.var.caller, c.req.valid('param').deviceId, c.req.valid('query'))),
  )
  .openapi(
    route('delete', '/{deviceId}/guest-links/{linkId}', {
      ...mayShare('Revoke a guest link', schemas.revokedGuestLinkSchema, 'not_found'),
    }),
    (c) => answer(c, revokeGuestLink(c.var.context, c.var.caller, c.req.valid('param'))),
  );
