// `npm run screenshots`: pictures of the console's screens in light, dark and on a phone, of a fleet and two people made for them.
// For the README and for changes of the console. Compares nothing.
import { join, resolve } from 'node:path';
import type { Page } from 'playwright-core';
import { runCommand } from '../client/src/command.ts';
import { putSchedule, runSchedule } from '../client/src/schedules.ts';
import { activate, addProduct, sendCommand, signUp, type Session } from '../rig/clients/accounts.ts';
import { connectApi, dataOf } from '../rig/clients/api.ts';
import { Browser } from '../rig/browser/browser.ts';
import { readCommandLine } from '../rig/command-line.ts';
import { signIn } from '../rig/browser/console-visit.ts';
import { WebhookReceiver } from '../rig/services/webhook-receiver.ts';
import { WholeService } from '../rig/services/whole-service.ts';
import { print } from './terminal.ts';
import { createVirtualDevice, type VirtualDevice } from './virtual-device.ts';

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
const overviewHeight = 860;

const service = await WholeService.start({});
const [browser, receiver] = await Promise.all([Browser.start(service.rig.url), WebhookReceiver.start()]);
const devices: VirtualDevice[] = [];
try {
  const connect = (credentials?: Parameters<typeof connectApi>[1]) => connectApi(service.rig.url, credentials);
  const fleet = await furnish(await signUp(connect, account), await signUp(connect, otherAccount));
  for (const [look, visitor] of Object.entries(looks)) await photograph(look, visitor, fleet);
  if (browser.problems.length > 0) print(`The pages had problems:\n${browser.problems.join('\n')}`);
  print(`The pictures are in ${folder}`);
} finally {
  for (const device of devices) await device.stop();
  await Promise.all([browser.stop(), receiver.stop()]);
  await service.stop();
}

/** A small fleet with something to see. The boiler is offline, and the hall has a schedule that has run. */
async function furnish(owner: Session, other: Session) {
  await addProduct(owner, { productKey, name: 'Wall switch', description: 'Three positions.', iconColor: '#0f766e' });
  const { api } = owner;
  const device = api.devices[':deviceId'];
  const deviceIds: string[] = [];
  for (const [index, name] of names.entries()) {
    const serial = `WS3-${1041 + index}`;
    const virtual = createVirtualDevice({ apiUrl: service.rig.url, productKey, serial });
    const { deviceId } = name === 'Boiler' ? await activate(api, productKey, serial) : await virtual.start();
    devices.push(virtual);
    deviceIds.push(deviceId);
    await dataOf(device.$patch({ param: { deviceId }, json: { name } }));
  }
  const [hall = '', garage = '', , boiler = '', porch = ''] = deviceIds;
  const up = { action: 'toggle', position: 'up' } as const;
  const down = { action: 'toggle', position: 'down' } as const;
  const sunset = { sun: 'sunset', offsetMinutes: -20, place: { latitude: 52.5, longitude: 13.4 } } as const;
  const morning = { at: '07:30', zone: 'UTC', command: up };
  const { scheduleId } = await putSchedule(api, hall, morning);
  await putSchedule(api, hall, { name: 'Evening', at: sunset, days: ['sat', 'sun'], zone: 'UTC', command: down });
  await putSchedule(api, hall, { at: '2027-12-01T18:30:00Z', command: up });
  await runSchedule(api, hall, scheduleId);
  await sendCommand(api, { deviceId: porch }, { ...up, lease: { seconds: 1800, then: down } });
  // The other person has accepted the first invitation.
  const json = { email: other.email, role: 'operator' } as const;
  const param = await dataOf(device.members.$post({ param: { deviceId: hall }, json }));
  await dataOf(other.api.invitations[':invitationId'].accept.$post({ param }));
  await dataOf(device.members.$post({ param: { deviceId: garage }, json }));
  const link = { command: { action: 'trigger' }, expiresAt: new Date(Date.now() + 86_400_000).toISOString() };
  const { url } = await dataOf(device['guest-links'].$post({ param: { deviceId: hall }, json: link }));
  const types = ['device.online', 'device.offline', 'command.settled'] as const;
  const webhook = { url: `${receiver.url}/latchwork`, types: [...types] };
  const { webhookId } = await dataOf(api.webhooks.$post({ json: webhook }));
  const home = { description: 'Home Assistant, holiday house', scopes: ['read' as const, 'control' as const] };
  await dataOf(api.users['api-keys'].$post({ json: { ...home, deviceIds: [hall, porch] } }));
  await runCommand(api, garage, down, { until: 'confirmed' });
  const missed = await putSchedule(api, boiler, { ...morning, graceSeconds: 5 });
  await runSchedule(api, boiler, missed.scheduleId);
  const group = { name: 'Ground floor', deviceIds: [hall, garage, boiler, porch] };
  const { groupId } = await dataOf(api.groups.$post({ json: group }));
  await dataOf(device.$patch({ param: { deviceId: hall }, json: { tags: ['lights'] } }));
  await dataOf(api.groups.$post({ json: { name: 'All lights', tag: 'lights' } }));
  const scene = { items: [hall, porch, boiler].map((deviceId) => ({ deviceId, command: up })), putBack: true };
  const { sceneId } = await dataOf(api.scenes.$post({ json: { name: 'Leaving', deadlineSeconds: 5, ...scene } }));
  const groupRun = await dataOf(api.commands.$post({ json: { groupId, command: down } }));
  await settled(api, groupRun.bulkId);
  const sceneRun = await dataOf(api.scenes[':sceneId'].run.$post({ param: { sceneId }, json: {} }));
  await settled(api, sceneRun.bulkId);
  const runs = { groupRun: `groups/${groupId}/${groupRun.bulkId}`, sceneRun: `scenes/${sceneId}/${sceneRun.bulkId}` };
  return { hall, boiler, porch, webhookId, guestPath: new URL(url).pathname, ...runs };
}

async function settled({ bulk }: Session['api'], bulkId: string): Promise<void> {
  const read = () => dataOf(bulk[':bulkId'].$get({ param: { bulkId }, query: { wait: '10' } }));
  while ((await read()).state !== 'settled');
}

async function photograph(
  look: string,
  visitor: (typeof looks)[keyof typeof looks],
  { hall, boiler, porch, webhookId, guestPath, groupRun, sceneRun }: Awaited<ReturnType<typeof furnish>>,
) {
  const page = await browser.open('/', visitor);
  const take = async (name: string, of = page, options: Parameters<Page['screenshot']>[0] = { fullPage: true }) => {
    await of.evaluate('scrollTo(0, 0)');
    // For what moves on the page to come to rest.
    await of.waitForTimeout(400);
    await of.screenshot({ path: join(folder, `${name}-${look}.png`), ...options });
  };
  const goTo = (hash: string, of = page) => of.evaluate(`location.hash = '${hash}'`);
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
  await take('overview', page, { clip: { x: 0, y: 0, width: visitor.viewport.width, height: overviewHeight } });
  await page.getByRole('button', { name: 'Set it up' }).click();
  await page.getByLabel('Reading', { exact: true }).selectOption('power');
  await page.getByLabel('Then it is').selectOption('Pressed');
  await take('witness-form');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('button', { name: /^Try it/ }).click();
  await page
    .getByRole('region', { name: 'How do you know' })
    .getByText(/^Witnessed/)
    .waitFor();
  await take('witness');
  const screens: [name: string, hash: string, heading: string][] = [
    ['device', `#/devices/${hall}`, 'Hall'],
    ['device-lease', `#/devices/${porch}`, 'Porch'],
    ['device-history', `#/devices/${hall}/history`, 'A number over time'],
    ['device-sharing', `#/devices/${hall}/sharing`, 'Guest links'],
    ['device-settings', `#/devices/${hall}/settings`, 'Ownership'],
    ['device-offline', `#/devices/${boiler}`, 'Boiler'],
    ['groups', '#/groups', 'Ground floor'],
    ['group-run', `#/${groupRun}`, 'The last press'],
    ['scenes', '#/scenes', 'Leaving'],
    ['scene-run', `#/${sceneRun}`, 'The last run'],
    ['add-device', '#/add', 'Add a device'],
    ['products', '#/products', 'Products'],
    ['product', `#/products/${productKey}`, 'Wall switch'],
    ['product-new', '#/products/+', 'Create a product'],
    ['settings', '#/settings', 'Settings'],
    ['settings-notices', '#/settings/notices', 'Notices on this device'],
    ['settings-webhooks', '#/settings/webhooks', 'Webhooks'],
    ['settings-home', '#/settings/home', 'Connect Home Assistant'],
    ['webhook', `#/settings/webhooks/${webhookId}`, receiver.url],
    ['notices', '#/notices', 'Notices'],
    ['device-times', `#/devices/${hall}/times`, 'What became of them'],
  ];
  for (const [name, hash, heading] of screens) {
    await goTo(hash);
    await page.getByRole('heading', { name: heading }).first().waitFor();
    await take(name);
  }
  await page.getByRole('button', { name: 'Add a schedule' }).click();
  await page.getByRole('region', { name: 'The next runs' }).getByRole('listitem').first().waitFor();
  await take('schedule-new', page, {});
  await page.keyboard.press('Escape');
  await goTo('#/settings/home');
  await page.getByLabel('Only these').check();
  await page.getByLabel('Hall', { exact: true }).check();
  await take('settings-home-devices');
  await page.getByLabel('All of mine').check();
  await page.getByRole('button', { name: 'Connect Home Assistant', exact: true }).click();
  await page.getByText('You already run mosquitto').click();
  await take('settings-home-values');
  for (const [name, path] of Object.entries({ guest: guestPath, reference: '/docs' })) {
    const opened = await browser.openIn(page.context(), path);
    await take(name, opened, {});
    await opened.close();
  }
  await goTo(`#/devices/${hall}/settings`);
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await take('dialog', page, {});
  const others = await browser.open('/', visitor);
  await signIn(others, otherAccount);
  await others.getByRole('region', { name: 'Invitation' }).waitFor();
  await take('devices-of-another', others);
  await goTo(`#/devices/${hall}`, others);
  await others.locator('.control button[aria-pressed=true]').waitFor();
  await take('device-of-another', others);
  for (const opened of [page, others]) await opened.context().close();
}
