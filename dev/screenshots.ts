// `npm run screenshots`: pictures of the console's screens in light, dark and on a phone, of a fleet and two people made for them.
// For the README and for changes of the console. Compares nothing.
import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Page } from 'playwright-core';
import { putSchedule, runSchedule } from '../client/src/schedules.ts';
import { activate, addProduct, signUp, type Session } from '../rig/clients/accounts.ts';
import { connectApi, dataOf } from '../rig/clients/api.ts';
import { Browser } from '../rig/browser/browser.ts';
import { readCommandLine } from '../rig/command-line.ts';
import { signIn } from '../rig/browser/console-visit.ts';
import { WholeService } from '../rig/services/whole-service.ts';
import { print } from './terminal.ts';
import { VirtualDevice } from './virtual-device.ts';

const usage = `Usage: npm run screenshots [-- --folder FOLDER]

  Takes pictures of the screens of the console in light, dark and on a phone. Needs Chromium.`;
const options = { folder: { type: 'string', default: '.screenshots' } } as const;
const folder = readCommandLine({ name: 'npm run screenshots', usage, options }, ({ values }) => resolve(values.folder));

const account = { email: 'ada@example.com', password: 'correct horse battery' };
const otherAccount = { email: 'bert@example.com', password: 'staple horse battery' };
const looks = {
  light: { colorScheme: 'light', viewport: { width: 1280, height: 860 } },
  dark: { colorScheme: 'dark', viewport: { width: 1280, height: 860 } },
  phone: { colorScheme: 'light', viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true },
} as const;
const productKey = 'wall-switch';
const names = ['Hall', 'Garage door', 'Attic lamp', 'Boiler', 'Porch', 'Greenhouse vent, second window from the door'];
/** The height of the picture in the README. */
const overviewHeight = 740;

mkdirSync(folder, { recursive: true });
const service = await WholeService.start({});
const browser = await Browser.start(service.rig.url);
const devices: VirtualDevice[] = [];
try {
  const connect = (credentials?: Parameters<typeof connectApi>[1]) => connectApi(service.rig.url, credentials);
  const owner = await signUp(connect, account);
  const deviceIds = await furnish(owner);
  const guestPath = await share(owner, await signUp(connect, otherAccount), deviceIds);
  for (const [look, visitor] of Object.entries(looks)) await photograph(look, visitor, deviceIds, guestPath);
  if (browser.problems.length > 0) print(`The pages had problems:\n${browser.problems.join('\n')}`);
  print(`The pictures are in ${folder}`);
} finally {
  for (const device of devices) await device.stop();
  await browser.stop();
  await service.stop();
}

/** A small fleet with something to see: every fourth device is offline. @returns the ids in the order of the names */
async function furnish(owner: Session): Promise<string[]> {
  await addProduct(owner, { productKey, name: 'Wall switch', description: 'Three positions.', iconColor: '#0f766e' });
  const deviceIds: string[] = [];
  for (const [index, name] of names.entries()) {
    const serial = `WS3-${1041 + index}`;
    const device = new VirtualDevice({ apiUrl: service.rig.url, productKey, serial });
    const { deviceId } = index % 4 === 3 ? await activate(owner.api, productKey, serial) : await device.start();
    devices.push(device);
    deviceIds.push(deviceId);
    await dataOf(owner.api.devices[':deviceId'].$patch({ param: { deviceId }, json: { name } }));
  }
  await schedule(owner, deviceIds);
  return deviceIds;
}

/** The first device has schedules, one of which has run; a press of the fifth is for a while. */
async function schedule({ api }: Session, [hall = '', , , , porch = '']: string[]): Promise<void> {
  const up = { action: 'toggle', position: 'up' } as const;
  const down = { action: 'toggle', position: 'down' } as const;
  const sunset = { sun: 'sunset', offsetMinutes: -20, place: { latitude: 52.5, longitude: 13.4 } } as const;
  const { scheduleId } = await putSchedule(api, hall, { at: '07:30', zone: 'UTC', command: up });
  await putSchedule(api, hall, { name: 'Evening', at: sunset, days: ['sat', 'sun'], zone: 'UTC', command: down });
  await putSchedule(api, hall, { at: '2027-12-01T18:30:00Z', command: up });
  await runSchedule(api, hall, scheduleId);
  const json = { ...up, lease: { seconds: 1800, then: down } };
  await dataOf(api.devices[':deviceId'].control.$post({ param: { deviceId: porch }, query: {}, header: {}, json }));
}

/** The other person operates the first device and is invited to the second. @returns the path of a guest's page */
async function share(owner: Session, other: Session, [hall = '', garage = '']: string[]): Promise<string> {
  const api = owner.api.devices[':deviceId'];
  const json = { email: other.email, role: 'operator' } as const;
  const param = await dataOf(api.members.$post({ param: { deviceId: hall }, json }));
  await dataOf(other.api.invitations[':invitationId'].accept.$post({ param }));
  await dataOf(api.members.$post({ param: { deviceId: garage }, json }));
  const link = { command: { action: 'trigger' }, expiresAt: new Date(Date.now() + 86_400_000).toISOString() };
  return new URL((await dataOf(api['guest-links'].$post({ param: { deviceId: hall }, json: link }))).url).pathname;
}

async function photograph(
  look: string,
  visitor: (typeof looks)[keyof typeof looks],
  [hall = '', , , boiler = '', porch = '']: string[],
  guestPath: string,
) {
  const page = await browser.open('/', visitor);
  const take = async (name: string, height?: number, of: Page = page): Promise<void> => {
    await of.evaluate('scrollTo(0, 0)');
    // For what moves on the page to come to rest.
    await of.waitForTimeout(400);
    const clip = height !== undefined && { clip: { x: 0, y: 0, width: visitor.viewport.width, height } };
    await of.screenshot({ path: join(folder, `${name}-${look}.png`), fullPage: true, ...clip });
  };
  await take('sign-in');
  await signIn(page, account);
  await page.getByRole('link', { name: /^Greenhouse/ }).waitFor();
  await take('devices');
  await page.getByRole('button', { name: 'Table' }).click();
  await page.getByRole('row').filter({ hasText: 'Hall' }).waitFor();
  await take('devices-table');
  await page.getByRole('button', { name: 'Board' }).click();
  await page.getByRole('button', { name: 'Make a virtual switch' }).click();
  await page.locator('.device-head').getByText('Online').waitFor();
  await page.locator('.control').getByRole('button', { name: 'Down', exact: true }).click();
  await page.locator('.journey').getByText('Confirmed by a report').waitFor();
  await take('overview', overviewHeight);
  const screens: [name: string, hash: string, heading: string][] = [
    ['device', `#/devices/${hall}`, 'Hall'],
    ['device-lease', `#/devices/${porch}`, 'Porch'],
    ['device-times', `#/devices/${hall}/times`, 'What became of them'],
    ['device-history', `#/devices/${hall}/history`, 'What happened'],
    ['device-sharing', `#/devices/${hall}/sharing`, 'Guest links'],
    ['device-settings', `#/devices/${hall}/settings`, 'Ownership'],
    ['device-offline', `#/devices/${boiler}`, 'Boiler'],
    ['add-device', '#/add', 'Add a device'],
    ['products', '#/products', 'Products'],
    ['product', `#/products/${productKey}`, 'Wall switch'],
    ['product-new', '#/products/+', 'Create a product'],
    ['settings', '#/settings', 'Settings'],
  ];
  for (const [name, hash, heading] of screens) {
    await page.evaluate(`location.hash = '${hash}'`);
    await page.getByRole('heading', { name: heading }).first().waitFor();
    await take(name);
  }
  await page.evaluate(`location.hash = '#/devices/${hall}/times'`);
  await page.getByRole('button', { name: 'Add a schedule' }).click();
  await page.getByRole('region', { name: 'The next runs' }).getByRole('listitem').first().waitFor();
  await take('schedule-new', visitor.viewport.height);
  await page.keyboard.press('Escape');
  for (const [name, path] of Object.entries({ guest: guestPath, reference: '/docs' })) {
    const opened = await browser.openIn(page.context(), path);
    await take(name, visitor.viewport.height, opened);
    await opened.close();
  }
  const others = await browser.open('/', visitor);
  await signIn(others, otherAccount);
  await others.getByRole('region', { name: 'Invitation' }).waitFor();
  await take('devices-of-another', undefined, others);
  await others.evaluate(`location.hash = '#/devices/${hall}'`);
  await others.locator('.control button[aria-pressed=true]').waitFor();
  await take('device-of-another', undefined, others);
  await page.evaluate(`location.hash = '#/devices/${hall}/settings'`);
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await take('dialog', visitor.viewport.height);
  for (const opened of [page, others]) await opened.context().close();
}
