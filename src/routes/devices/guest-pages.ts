// The page that a guest sees at `/g/{token}`, with one button. GET changes nothing: link previews and scanners send it, too.
// The form's POST sends the command. No script but a fixed one, nothing from other hosts, no token but in the address.
import { createMiddleware } from 'hono/factory';
import type { Context } from 'hono';
import { createId } from '../../crypto/secrets.ts';
import { RefusedError, wireErrorOf } from '../../domain/refusal.ts';
import { logUncaught } from '../../http/envelope.ts';
import { type AppEnv, readText, createRouter } from '../../http/router.ts';
import { statusByError } from '../../protocol/error-status.ts';
import { setPageHeaders } from '../../http/headers.ts';
import { noteRefusal } from '../../http/request-log.ts';
import { useGuestLink, viewAsGuest } from '../../services/devices/guest-links.ts';
import { renderLink, renderRefusal, renderUse, scriptHash } from './guest-page-html.ts';

const maxFormBytes = 1024;
const requestIdLength = 16;

/** The address is a secret, and what the page says is true for a moment. */
const keepPrivate = createMiddleware<AppEnv>(async (c, next) => {
  c.header('Cache-Control', 'no-store');
  c.header('X-Robots-Tag', 'noindex, nofollow');
  await next();
});

export const guestPageRoutes = createRouter();

guestPageRoutes.use(keepPrivate, setPageHeaders(`style-src 'self'; script-src '${scriptHash}'; form-action 'self'`));

guestPageRoutes.get('/:token', async (c) => {
  const view = await viewAsGuest(c.var.context, c.req.param('token'));
  const isOver = view.link.state === 'open' ? undefined : view.link.state;
  if (isOver !== undefined) throw new RefusedError({ kind: 'guest_link_refused', because: isOver });
  return c.html(renderLink(view, createId('', requestIdLength)));
});

guestPageRoutes.post('/:token', async (c) => {
  const requestId = await readRequestId(c);
  const receipt = await useGuestLink(c.var.context, c.req.param('token'), requestId);
  return c.html(renderUse(receipt, requestId), receipt.state === 'undelivered' ? 503 : 200);
});

guestPageRoutes.onError(async (error, c) => {
  const refusal = error instanceof RefusedError ? error.refusal : await logUncaught(c, error);
  const { message, retryAfterSeconds } = wireErrorOf(refusal);
  if (retryAfterSeconds !== undefined) c.header('Retry-After', String(retryAfterSeconds));
  noteRefusal(c, refusal);
  const hasEnded = refusal.kind === 'guest_link_refused' && refusal.because !== 'wrong';
  return c.html(renderRefusal(refusal), hasEnded ? 410 : statusByError[message]);
});

/** The id of the page that is sent: sending it twice is one use. Undefined if a client makes its own request. */
async function readRequestId(c: Context<AppEnv>): Promise<string | undefined> {
  const text = await readText(c.req.raw, maxFormBytes);
  const requestId = new URLSearchParams(text ?? '').get('request') ?? '';
  return /^[0-9a-z]{16}$/.test(requestId) ? requestId : undefined;
}
