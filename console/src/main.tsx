// The frame around the screens: navigation, whether the page is live, and which screen is shown.
import { render, type ComponentChildren } from 'preact';
import { useEffect } from 'preact/hooks';
import { hrefOf, route, type Route } from './router.ts';
import { later } from './parts/later.tsx';
import { Bell } from './notices/bell.tsx';
import { Devices } from './screens/devices.tsx';
import { SignIn } from './screens/sign-in.tsx';
import { clockTime } from './state/clock.ts';
import { codeSheet } from './state/code-sheet.ts';
import { waitingForPassword } from './state/confirmation.ts';
import { liveState, staleSinceMs } from './state/live.ts';
import './state/notice-clicks.ts';
import { isSignedIn } from './state/session.ts';
import { texts } from './texts.ts';

// What most visits do not need is loaded with its first use.
const DeviceScreen = later(async () => (await import('./device/device.tsx')).DeviceScreen);
const Collections = later(async () => (await import('./groups/collections.tsx')).Collections);
const AddDevice = later(async () => (await import('./screens/add-device.tsx')).AddDevice);
const Products = later(async () => (await import('./screens/products.tsx')).Products);
const ProductScreen = later(async () => (await import('./screens/product.tsx')).ProductScreen);
const CampaignScreen = later(async () => (await import('./firmware/campaign.tsx')).CampaignScreen);
const CodeSheet = later(async () => (await import('./screens/code-sheet.tsx')).CodeSheet);
const VerifyEmail = later(async () => (await import('./screens/verify-email.tsx')).VerifyEmail);
const Confirmation = later(async () => (await import('./parts/confirmation.tsx')).Confirmation);
const Webhook = later(async () => (await import('./webhooks/webhook.tsx')).WebhookScreen);
const Notices = later(async () => (await import('./notices/notices.tsx')).Notices);
const Settings = later(async () => (await import('./screens/settings.tsx')).Settings);

function App() {
  if (route.value.screen === 'verify') return <VerifyEmail token={route.value.token} />;
  if (!isSignedIn.value) return <SignIn />;
  if (codeSheet.value !== null) return <CodeSheet />;
  const here = route.value;
  return (
    <>
      <a class="skip" href="#content" onClick={focusContent}>
        {texts.nav.skip}
      </a>
      <header class="top">
        <a class="brand" href={hrefOf({ screen: 'devices' })}>
          <img src="icon.svg" alt="" width="24" height="24" /> {texts.product}
        </a>
        <nav>
          <Link to={{ screen: 'devices' }} text={texts.nav.devices} here={here} />
          <Link to={{ screen: 'groups' }} text={texts.nav.groups} here={here} />
          <Link to={{ screen: 'products' }} text={texts.nav.products} here={here} />
          <Link to={{ screen: 'settings' }} text={texts.nav.settings} here={here} />
        </nav>
        <Bell isOpen={here.screen === 'notices'} />
        <Live />
      </header>
      <Dated here={here}>
        <Screen key={screenOf(here)} here={here} />
      </Dated>
      {waitingForPassword.value !== null && <Confirmation answer={waitingForPassword.value} />}
    </>
  );
}

/** A live screen without a connection shows the past, and says of when. */
function Dated({ here, children }: { here: Route; children: ComponentChildren }) {
  const staleMs = here.screen === 'device' || here.screen === 'devices' ? staleSinceMs.value : null;
  return (
    <div class={staleMs === null ? undefined : 'stale'}>
      {staleMs !== null && <p class="as-of">{texts.live.asOf(clockTime(staleMs))}</p>}
      {children}
    </div>
  );
}

/** All tabs of a device or a product are one screen, those of the settings, and all runs of a group. */
function screenOf(here: Route): string {
  if ('bulkId' in here) return hrefOf({ screen: here.screen, ...(here.id !== undefined && { id: here.id }) });
  if (here.screen === 'settings') return hrefOf({ screen: 'settings' });
  if (here.screen === 'product') return hrefOf({ ...here, tab: 'overview' });
  return hrefOf(here.screen === 'device' ? { screen: 'device', deviceId: here.deviceId } : here);
}

function Screen({ here }: { here: Route }) {
  useEffect(() => scrollTo(0, 0), []);
  switch (here.screen) {
    case 'devices':
      return <Devices />;
    case 'device':
      return <DeviceScreen deviceId={here.deviceId} tab={here.tab ?? 'control'} />;
    case 'groups':
    case 'scenes':
      return <Collections {...here} />;
    case 'add':
      return <AddDevice code={here.code} />;
    case 'products':
      return <Products />;
    case 'product':
      return <ProductScreen productKey={here.productKey} tab={here.tab ?? 'overview'} />;
    case 'campaign':
      return <CampaignScreen {...here} />;
    case 'settings':
      return <Settings tab={here.tab ?? 'account'} />;
    case 'webhook':
      return <Webhook webhookId={here.webhookId} />;
    case 'notices':
      return <Notices />;
    case 'verify':
      return null;
  }
}

const sectionOf: Record<Route['screen'], Route['screen']> = {
  devices: 'devices',
  device: 'devices',
  groups: 'groups',
  scenes: 'groups',
  add: 'devices',
  products: 'products',
  product: 'products',
  campaign: 'products',
  settings: 'settings',
  webhook: 'settings',
  notices: 'notices',
  verify: 'settings',
};

function Link({ to, text, here }: { to: Route; text: string; here: Route }) {
  return (
    <a href={hrefOf(to)} aria-current={to.screen === sectionOf[here.screen] ? 'page' : undefined}>
      {text}
    </a>
  );
}

function Live() {
  const { state, detail } = liveState.value;
  const words = texts.live;
  const why = words.causes[detail] ?? words.lost;
  const text = { ...words, waiting: words.waiting(why), ended: words.ended(why) };
  return (
    <span class={`live ${state}`} role="status">
      {text[state]}
    </span>
  );
}

/** A hash of its own would be taken for a screen. */
function focusContent(event: Event): void {
  event.preventDefault();
  const content = document.getElementById('content');
  content?.setAttribute('tabindex', '-1');
  content?.focus();
}

const root = document.getElementById('app');
if (root === null) throw new Error('the page has no element with the id app');
render(<App />, root);
