// `npm run screenshots`: each screen of the console in light, dark and on a phone, as pictures in a folder, with devices that
// really live. To be looked at before a change of the console is called done.
import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Page } from 'playwright-core';
import { activate, addProduct, signUp, type Session } from '../rig/clients/accounts.ts';
import { connectApi, dataOf } from '../rig/clients/api.ts';
import { Browser } from '../rig/browser/browser.ts';
import { readCommandLine } from '../rig/command-line.ts';
import { signIn } from '../rig/browser/console-visit.ts';
import { EmulatedBoard } from '../rig/browser/emulated-board.ts';
import { WholeService } from '../rig/services/whole-service.ts';
import { print } from './terminal.ts';
import { VirtualDevice } from './virtual-device.ts';

const usage = `Usage: npm run screenshots [-- --folder FOLDER] [-- --only NAME]

  Takes pictures of each screen of the console in light, dark and on a phone. Needs Chromium.`;
const options = { folder: { type: 'string' }, only: { type: 'string' } } as const;
const { folder, only } = readCommandLine({ name: 'npm run screenshots', usage, options }, ({ values }) => ({
  folder: resolve(values.folder ?? '.screenshots'),
  only: values.only,
}));

const account = { email: 'ada@example.com', password: 'correct horse battery' };
const looks = {
  light: { colorScheme: 'light', viewport: { width: 1280, height: 860 } },
  dark: { colorScheme: 'dark', viewport: { width: 1280, height: 860 } },
  phone: { colorScheme: 'light', viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true },
} as const;
const names = [
  ...['Hall', 'Garage door', 'Attic lamp', 'Boiler', 'Office PC', 'Porch', 'Cellar fan', 'Greenhouse vent'],
  ...['Workshop', 'Pool pump', 'Aquarium', 'Guest room'],
];

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

/** A small fleet with something to see. @returns the ids of its devices by name */
async function furnish(owner: Session): Promise<Record<string, string>> {
  const url = service.rig.url;
  const texts = { category: 'switch', manufacturer: 'Ada Works', iconColor: '#0f766e' };
  const productKey = await addProduct(owner, {
    ...{ productKey: 'wall-switch', name: 'Wall switch', model: 'WS-3', controlMode: 'toggle' },
    ...{ description: 'Three positions, servo driven.', ...texts },
  });
  await addProduct(owner, {
    ...{ productKey: 'wake-up', name: 'USB wake-up', model: 'WU-1', controlMode: 'pulse' },
    ...{ description: 'Presses the power button of a computer.', ...texts, iconColor: '#7c3aed' },
  });
  await addProduct(owner, {
    ...{ productKey: 'vent', name: 'Vent', model: 'V-2', controlMode: 'dimmer', status: 0 },
    ...{ description: 'Opens by angle.', ...texts, iconColor: '#c2410c' },
  });
  const ids: Record<string, string> = {};
  for (const [index, name] of names.entries()) {
    const serial = `WS3-${String(1041 + index)}`;
    const isOffline = index % 5 === 3;
    const made = new VirtualDevice({ apiUrl: url, productKey, serial });
    const { deviceId } = isOffline ? await activate(owner.api, productKey, serial) : await made.start();
    if (!isOffline) devices.push(made);
    ids[name] = deviceId;
    await dataOf(owner.api.devices[':deviceId'].$patch({ param: { deviceId }, json: { name } }));
  }
  const param = { deviceId: ids['Cellar fan'] ?? '' };
  await dataOf(owner.api.devices[':deviceId'].$patch({ param, json: { disabled: true } }));
  const json = { email: 'grace@example.com', role: 'operator' } as const;
  await dataOf(owner.api.devices[':deviceId'].members.$post({ param: { deviceId: ids['Hall'] ?? '' }, json }));
  await dataOf(owner.api.users['api-keys'].$post({ json: { description: 'Home automation' } }));
  return ids;
}

async function photograph(
  look: string,
  visitor: (typeof looks)[keyof typeof looks],
  deviceIds: Record<string, string>,
): Promise<void> {
  const board = new EmulatedBoard({
    ...{ productKey: 'wall-switch', serial: `NEW-${look}`, wifiPassword: 'correct horse' },
  });
  const page = await browser.open('/', { ...visitor, prepare: board.install });
  const take = async (name: string, height?: number): Promise<void> => {
    if (only !== undefined && only !== name) return;
    await page.evaluate('scrollTo(0, 0)');
    await page.mouse.move(0, 0);
    await page.waitForTimeout(400);
    const clip = height !== undefined && { clip: { x: 0, y: 0, width: visitor.viewport.width, height } };
    await page.screenshot({ path: join(folder, `${name}-${look}.png`), fullPage: true, ...clip });
  };
  const go = async (hash: string, heading: string | RegExp): Promise<void> => {
    await page.evaluate(`location.hash = '${hash}'`);
    await page.getByRole('heading', { name: heading }).first().waitFor();
  };
  await take('sign-in');
  await newcomer(look, visitor);
  await signIn(page, account);
  await page.getByRole('link', { name: 'Hall' }).waitFor();
  await take('devices');
  await page.getByRole('button', { name: 'Make a virtual switch' }).click();
  await page.locator('.device-head').getByText('Online').waitFor();
  await press(page, 'Down');
  await page.locator('.journey').getByText('Confirmed by a report').waitFor();
  await take('virtual-switch');
  // For the README.
  await take('overview', 910);
  await page.getByRole('button', { name: 'Pull the plug' }).click();
  await page.locator('.device-head').getByText('Offline').waitFor();
  await take('plug-pulled');
  await go(`#/devices/${deviceIds['Hall'] ?? ''}`, 'Hall');
  for (const position of ['Up', 'Middle', 'Down']) {
    await press(page, position);
    await page.locator('.journey').getByText('Confirmed by a report').waitFor();
  }
  await take('device');
  await go(`#/devices/${deviceIds['Boiler'] ?? ''}`, 'Boiler');
  await take('device-offline');
  await go('#/add', 'Add a device');
  await take('add-device');
  await page.getByLabel('Wi-Fi name').fill('Attic');
  await page.getByLabel('Wi-Fi password').fill('wrong password');
  await page.getByRole('button', { name: 'Choose the device' }).click();
  await page.getByRole('alert').filter({ hasText: 'could not join' }).waitFor();
  await page.getByRole('button', { name: 'Make an address' }).click();
  await page.getByText('Waiting for the device.').waitFor();
  await take('add-device-error');
  await go('#/products', 'Products');
  await page.getByRole('link', { name: 'Wall switch' }).waitFor();
  await take('products');
  await go('#/products/wall-switch', 'Wall switch');
  await take('product');
  await go('#/products/+', 'Create a product');
  await take('product-new');
  await go('#/settings', 'Settings');
  await page.getByText('Home automation').waitFor();
  await take('settings');
  await board.stop();
  await page.context().close();
}

/** Somebody who has nothing yet. */
async function newcomer(look: string, visitor: (typeof looks)[keyof typeof looks]): Promise<void> {
  if (only !== undefined && only !== 'empty') return;
  const page = await browser.open('/', visitor);
  await page.getByRole('button', { name: 'No account yet? Create one' }).click();
  await page.getByLabel('Email').fill(`${look}@example.com`);
  await page.getByLabel('Password').fill(account.password);
  await page.getByRole('button', { name: 'Create account' }).click();
  await page.getByRole('heading', { name: 'No device yet' }).waitFor();
  await page.screenshot({ path: join(folder, `empty-${look}.png`), fullPage: true });
  await page.context().close();
}

async function press(page: Page, position: string): Promise<void> {
  await page.locator('.control').getByRole('button', { name: position, exact: true }).click();
}
