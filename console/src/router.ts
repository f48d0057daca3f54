// The place in the console, kept in the address after `#`: links are plain anchors and the browser's history works.
// Knows names and parameters of screens, not what they show.
import { signal } from '@preact/signals';

export type Route =
  | { screen: 'devices' }
  | { screen: 'add' }
  | { screen: 'device'; deviceId: string }
  | { screen: 'products' }
  | { screen: 'product'; productKey: string | null }
  | { screen: 'settings' };

export const route = signal<Route>(parse(location.hash));
addEventListener('hashchange', () => (route.value = parse(location.hash)));

export function hrefOf(to: Route): string {
  switch (to.screen) {
    case 'devices':
      return '#/';
    case 'device':
      return `#/devices/${encodeURIComponent(to.deviceId)}`;
    case 'product':
      return to.productKey === null ? '#/products/+' : `#/products/${encodeURIComponent(to.productKey)}`;
    case 'add':
    case 'products':
    case 'settings':
      return `#/${to.screen}`;
  }
}

export function goTo(to: Route): void {
  location.hash = hrefOf(to);
}

function parse(hash: string): Route {
  const [screen = '', given] = hash.replace(/^#\/?/, '').split('/');
  const parameter = given === undefined ? undefined : decode(given);
  if (screen === 'devices' && parameter !== undefined) return { screen: 'device', deviceId: parameter };
  if (screen === 'products' && parameter !== undefined) {
    return { screen: 'product', productKey: parameter === '+' ? null : parameter };
  }
  if (screen === 'add' || screen === 'products' || screen === 'settings') return { screen };
  return { screen: 'devices' };
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
