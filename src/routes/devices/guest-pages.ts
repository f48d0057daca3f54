// The page that a guest sees at `/g/{token}`, with one button, in the style of the console. GET changes nothing: link previews and scanners
// send it, too. The form's POST sends the command. No script but a fixed one, nothing from other hosts, no token but in the address.
// Everything that comes from a device or an owner is escaped by `html`.
import { createMiddleware } from 'hono/factory';
import type { Context } from 'hono';
import { createId } from '../../crypto/secrets.ts';
import { RefusedError, wireErrorOf, type Refusal } from '../../domain/refusal.ts';
import { logUncaught } from '../../http/envelope.ts';
import { type AppEnv, readText, createRouter } from '../../http/router.ts';
import { statusByError } from '../../protocol/error-status.ts';
import { setPageHeaders } from '../../http/headers.ts';
import { noteRefusal } from '../../http/request-log.ts';
import { useGuestLink, viewAsGuest } from '../../services/devices/guest-links.ts';
import { html, raw } from 'hono/html';
import type { GuestReceipt, GuestView } from '../../domain/device/commands/guest-links.ts';
import type { ControlParams } from '../../domain/control-command.ts';
import { isCertainlyUnpublished } from '../../domain/publish-outcome.ts';

const maxFormBytes = 1024;
const requestIdLength = 16;

/** The only script: it writes times in the zone of the guest, which the service does not know. */
const script =
  "for(const t of document.querySelectorAll('time'))" +
  "t.textContent=new Date(t.dateTime).toLocaleString('en-GB',{dateStyle:'medium',timeStyle:'short'})";

/** The digest of `script`: the page's policy lets a browser run no other. */
const scriptHash = 'sha256-bpbg6Nr2y/QDMlpA7WkGPAWXcTwxi5FHXdo51RyYy08=';

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

type Html = ReturnType<typeof html>;

function renderLink({ deviceName, isOnline, link }: GuestView, requestId: string): Html {
  const usesLeft = link.maxUses - link.uses;
  const presence = isOnline
    ? ''
    : html`<p class="notice warn">The device is offline at the moment: the button may have no effect.</p>`;
  return renderPage(
    deviceName,
    html`<p>You were given a link that does one thing with this device.</p>
      ${presence} ${renderForm(labelOf(link.command), requestId)}
      <p class="hint">
        ${usesLeft === 1 ? 'It works once' : `It works ${usesLeft.toLocaleString('en')} more times`}, until
        <time datetime="${link.expiresAt}">${new Date(link.expiresAt).toUTCString()}</time>. The owner sees when it is
        used.
      </p>`,
  );
}

function renderUse(receipt: GuestReceipt, requestId: string | undefined): Html {
  const { deviceName, usesLeft, state } = receipt;
  const [title, text] = wordsOf(receipt);
  const isOpen = state === 'sent' && requestId !== undefined;
  return renderPage(
    deviceName,
    html`<h2>${title}</h2>
      <p>${text}</p>
      ${isOpen ? renderForm('Has it answered?', requestId) : ''}
      ${usesLeft > 0 ? html`<p><a href="">Back to the button</a></p>` : html`<p class="hint">The link is used up.</p>`}`,
  );
}

function renderRefusal(refusal: Refusal): Html {
  const mayWorkLater = refusal.kind !== 'guest_link_refused';
  return renderPage(
    'Nothing was done',
    html`<p>${explain(refusal)}</p>
      ${mayWorkLater ? html`<p><a href="">Back to the button</a></p>` : ''}`,
  );
}

/** What came of it: what the device or the broker said, and no more. */
function wordsOf({ deviceName, state, deviceOnline }: GuestReceipt): [title: string, text: string] {
  switch (state) {
    case 'acknowledged':
      return ['Done', `${deviceName} has answered.`];
    case 'confirmed':
      return ['Done', `${deviceName} has reported the result.`];
    case 'failed':
      return ['Not done', `${deviceName} has the command and answered that it failed.`];
    case 'undelivered':
      return ['Offline', `${deviceName} is not connected. Nothing was done, and this use does not count.`];
    case 'sent':
      return deviceOnline
        ? ['Sent', `${deviceName} has not answered yet.`]
        : ['Sent', `${deviceName} seems to be offline and may not get it. It will not be sent again later.`];
    default:
      return ['Not known', `${deviceName} has not answered. Whether it did anything is not known.`];
  }
}

function explain(refusal: Refusal): string {
  if (refusal.kind === 'guest_link_refused') return endings[refusal.because];
  if (refusal.kind !== 'not_published')
    return explanations[refusal.kind] ?? 'Something went wrong here. Try again later.';
  return isCertainlyUnpublished(refusal.because)
    ? 'The device cannot be reached at the moment. This use does not count.'
    : 'It is not known whether the command reached the device.';
}

const explanations: Partial<Record<Refusal['kind'], string>> = {
  rate_limited: 'Too many attempts. Wait a minute, then try again.',
  device_disabled: 'The device is disabled.',
  device_restarting: 'The device installs new firmware. Try again in some minutes.',
  product_readonly: 'The device takes no commands any more.',
};

const endings: Record<Extract<Refusal, { kind: 'guest_link_refused' }>['because'], string> = {
  wrong: 'There is no such link. Check that the address is complete.',
  revoked: 'This link does not work any more.',
  used_up: 'This link was used as often as it may be.',
  expired: 'This link has expired.',
  ended: 'This link has ended, because the device was disabled.',
};

function labelOf({ action, position, duration, switch: isOn, angle }: ControlParams): string {
  if (action === 'trigger') return 'Trigger';
  if (action === 'toggle') return position === undefined ? 'Toggle' : `Switch to ${position}`;
  if (action === 'pulse') return duration === undefined ? 'Pulse' : `Pulse of ${duration} ms`;
  const switched = isOn === undefined ? '' : isOn ? 'Switch on' : 'Switch off';
  const turned = angle === undefined ? '' : `Turn to ${angle}°`;
  return [switched, turned].filter(Boolean).join(', ');
}

function renderForm(label: string, requestId: string): Html {
  return html`<form method="post">
    <input type="hidden" name="request" value="${requestId}" />
    <button>${label}</button>
  </form>`;
}

function renderPage(title: string, body: Html): Html {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="robots" content="noindex, nofollow" />
        <title>${title}</title>
        <link rel="stylesheet" href="/console/style.css" />
      </head>
      <body>
        <main class="welcome guest">
          <h1>${title}</h1>
          <section class="card">${body}</section>
        </main>
        ${raw(`<script>${script}</script>`)}
      </body>
    </html>`;
}
