// The place in the console, kept in the address after `#`: links are plain anchors and the browser's history works.
// Knows names and parameters of screens, not what they show.
import { signal } from '@preact/signals';
import { codeOf, type DeviceCode } from './state/device-code.ts';

export const deviceTabs = ['control', 'times', 'history', 'firmware', 'sharing', 'settings'] as const;
export type DeviceTab = (typeof deviceTabs)[number];
export const settingsTabs = ['account', 'notices', 'webhooks', 'home'] as const;
export type SettingsTab = (typeof settingsTabs)[number];
export const productTabs = ['overview', 'firmware'] as const;
export type ProductTab = (typeof productTabs)[number];

export type Route =
  | { screen: 'devices' }
  | { screen: 'add'; code?: DeviceCode }
  | { screen: 'device'; deviceId: string; tab?: DeviceTab }
  | { screen: 'groups' | 'scenes'; id?: string; bulkId?: string }
  | { screen: 'products' }
  | { screen: 'product'; productKey: string | null; tab?: ProductTab }
  | { screen: 'campaign'; productKey: string; campaignId: string }
  | { screen: 'settings'; tab?: SettingsTab }
  | { screen: 'webhook'; webhookId: string | null }
  | { screen: 'notices' }
  | { screen: 'verify'; token: string };

export const route = signal<Route>(parse(location.hash));
addEventListener('hashchange', () => (route.value = parse(location.hash)));

export function hrefOf(to: Route): string {
  switch (to.screen) {
    case 'devices':
      return '#/';
    case 'device':
      return `#/devices/${encodeURIComponent(to.deviceId)}${inTab(to.tab)}`;
    case 'settings':
      return `#/settings${inTab(to.tab)}`;
    case 'webhook':
      return `#/settings/webhooks/${to.webhookId === null ? '+' : encodeURIComponent(to.webhookId)}`;
    case 'product':
      return to.productKey === null
        ? '#/products/+'
        : `#/products/${encodeURIComponent(to.productKey)}${inTab(to.tab)}`;
    case 'campaign':
      return `${hrefOf({ screen: 'product', productKey: to.productKey, tab: 'firmware' })}/${to.campaignId}`;
    case 'verify':
      return `#/verify/${encodeURIComponent(to.token)}`;
    case 'groups':
    case 'scenes':
      return `#/${[to.screen, to.id ?? [], to.bulkId ?? []].flat().join('/')}`;
    case 'add':
    case 'products':
    case 'notices':
      return `#/${to.screen}`;
  }
}

export function goTo(to: Route): void {
  location.hash = hrefOf(to);
}

function parse(hash: string): Route {
  const [screen = '', ...parts] = hash.replace(/^#\/?/, '').split('/');
  const parameters = parts.map(decode);
  const [parameter, second, third] = parameters;
  if (screen === 'devices' && parameter !== undefined) {
    const tab = deviceTabs.find((name) => name === second) ?? 'control';
    return { screen: 'device', deviceId: parameter, tab };
  }
  if (screen === 'groups' || screen === 'scenes') {
    return {
      screen,
      ...(parameter !== undefined && { id: parameter }),
      ...(second !== undefined && { bulkId: second }),
    };
  }
  if (screen === 'products' && parameter !== undefined) {
    if (third !== undefined) return { screen: 'campaign', productKey: parameter, campaignId: third };
    const tab = productTabs.find((name) => name === second) ?? 'overview';
    return { screen: 'product', productKey: parameter === '+' ? null : parameter, tab };
  }
  if (screen === 'settings' && parameter === 'webhooks' && second !== undefined) {
    return { screen: 'webhook', webhookId: second === '+' ? null : second };
  }
  if (screen === 'settings') return { screen, tab: settingsTabs.find((name) => name === parameter) ?? 'account' };
  if (screen === 'verify' && parameter !== undefined) return { screen, token: parameter };
  const code = codeOf(parameters);
  if (screen === 'add' && code !== undefined) return { screen, code };
  if (screen === 'add' || screen === 'products' || screen === 'notices') return { screen };
  return { screen: 'devices' };
}

/** The first one has no name in the address. */
function inTab(tab: DeviceTab | SettingsTab | ProductTab = 'control'): string {
  return tab === 'control' || tab === 'account' || tab === 'overview' ? '' : `/${tab}`;
}

/** @returns undefined for what is no address of a device's code, of any console */
export function codeOfAddress(address: string): DeviceCode | undefined {
  const here = parse(URL.canParse(address) ? new URL(address).hash : '');
  return here.screen === 'add' ? here.code : undefined;
}

/** What of an address cannot be decoded stays as it is. */
export function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    if (error instanceof URIError) return text;
    throw error;
  }
}
