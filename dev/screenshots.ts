// `npm run screenshots`: pictures of the console's screens in light, dark and on a phone, of a fleet made for them. For the README
// and for changes of the console. Compares nothing.
import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
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
const looks = {
  light: { colorScheme: 'light', viewport: { width: 1280, height: 860 } },
  dark: { colorScheme: 'dark', viewport: { width: 1280, height: 860 } },
  phone: { colorScheme: 'light', viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true },
} as const;
const productKey = 'wall-switch';
const names = ['Hall', 'Garage door', 'Attic lamp', 'Boiler', 'Office PC', 'Porch', 'Cellar fan', 'Greenhouse vent'];
/** The height of the picture in the README. */
const overviewHeight = 910;

mkdirSync(folder, { recursive: true });
const service = await WholeService.start({});
const browser = await Browser.start(service.rig.url);
const devices: VirtualDevice[] = [];
try {
  const owner = await signUp((credentials) => connectApi(service.rig.url, credentials), account);
  const deviceIds = await furnish(owner);
  for (const [look, visitor] of Object.entries(looks)) await photograph(look, visitor, deviceIds);
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
  return deviceIds;
}

async function photograph(
  look: string,
  visitor: (typeof looks)[keyof typeof looks],
  [hall = '', , , boiler = '']: string[],
) {
  const page = await browser.open('/', visitor);
  const take = async (name: string, height?: number): Promise<void> => {
    await page.evaluate('scrollTo(0, 0)');
    // For what moves on the page to come to rest.
    await page.waitForTimeout(400);
    const clip = height !== undefined && { clip: { x: 0, y: 0, width: visitor.viewport.width, height } };
    await page.screenshot({ path: join(folder, `${name}-${look}.png`), fullPage: true, ...clip });
  };
  await take('sign-in');
  await signIn(page, account);
  await page.getByRole('link', { name: 'Hall' }).waitFor();
  await take('devices');
  await page.getByRole('button', { name: 'Make a virtual switch' }).click();
  await page.locator('.device-head').getByText('Online').waitFor();
  await page.locator('.control').getByRole('button', { name: 'Down', exact: true }).click();
  await page.locator('.journey').getByText('Confirmed by a report').waitFor();
  await take('overview', overviewHeight);
  const screens: [name: string, hash: string, heading: string][] = [
    ['device', `#/devices/${hall}`, 'Hall'],
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
  await page.context().close();
}
