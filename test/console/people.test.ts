// Whose a device is and with whom it is shared, in the console: two people in browsers of their own, against the whole service.
import type { Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { activate, type Session } from '../../rig/clients/accounts.ts';
import { dataOf } from '../../rig/clients/api.ts';
import { browserMissing } from '../../rig/browser/browser.ts';
import { Stage } from '../../rig/browser/console-stage.ts';
import { findBarriers, openDevice, openTab } from '../../rig/browser/console-visit.ts';

describe.skipIf(browserMissing !== null)(browserMissing ?? 'the people of a device', () => {
  let stage: Stage;
  let guest: Session;
  let owners: Page;
  let guests: Page;
  let deviceId: string;

  beforeAll(async () => {
    stage = await Stage.open();
    guest = await stage.signUp();
    ({ deviceId } = await activate(stage.owner.api, stage.productKey, 'DOOR-1'));
    owners = await stage.visit();
    guests = await stage.visit({}, guest);
  });
  afterAll(() => stage.close());
  /** Whose right ends while a page is open may be refused what that page reads just then, or a test later; Chromium notes it. */
  const takeProblems = async () =>
    (await stage.browser.takeProblems()).filter((problem) => !problem.includes('a status of 403'));
  afterEach(async () => expect(await takeProblems()).toEqual([]));

  const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click();
  const confirm = (page: Page, name: string) =>
    page.getByRole('dialog').getByRole('button', { name, exact: true }).click();
  const part = (page: Page, name: string) => page.getByRole('region', { name });
  const openDoor = async (page: Page, tab: string) => {
    await openDevice(page, /OR-1/);
    await openTab(page, tab);
  };

  it('are invited by email, find the invitation among their devices, and do what their role allows', async () => {
    await openDoor(owners, 'Sharing');
    const people = part(owners, 'People');
    await people.getByText('Shared with nobody.').waitFor();
    await press(owners, 'Invite somebody');
    await owners.locator('dialog input:focus').waitFor();
    await owners.getByRole('dialog').getByLabel('Email').fill(guest.email);
    await owners.getByRole('dialog').getByLabel('Role').selectOption('viewer');
    await press(owners, 'Send the invitation');
    await people.getByRole('button', { name: `Withdraw the invitation of ${guest.email}` }).waitFor();
    await guests.reload();
    const invitation = part(guests, 'Invitation');
    await invitation.getByText(`${stage.owner.email} shares “Servo switch OR-1” with you as Viewer.`).waitFor();
    expect(await findBarriers(guests)).toEqual([]);
    await press(guests, 'Accept');
    await guests.getByRole('listitem').filter({ hasText: 'shared, viewer' }).waitFor();
    await guests.getByText('You may look, and press nothing.').waitFor();
    expect(await guests.getByRole('button', { name: 'Up', exact: true }).isDisabled()).toBe(true);
    await invitation.waitFor({ state: 'detached' });
    await people.getByLabel(`Role of ${guest.email}`).waitFor();
    await people.getByText('Open invitations').waitFor({ state: 'detached' });
    await openDevice(guests, /OR-1/);
    await guests.getByText('You are a viewer of this device').waitFor();
    expect(await guests.getByRole('button', { name: 'Up', exact: true }).isDisabled()).toBe(true);
    await openTab(guests, 'Sharing');
    await part(guests, 'Shared with you').getByText('You are a viewer:').waitFor();
    expect(await part(guests, 'People').count()).toBe(0);
    expect(await guests.getByRole('tab', { name: 'Settings' }).count()).toBe(0);
    await guests.goto(guests.url().replace(/sharing$/, 'settings'));
    await guests.getByRole('tab', { name: 'Control', selected: true }).waitFor();
    for (const name of ['Ownership', 'Manage']) expect(await guests.getByRole('heading', { name }).count()).toBe(0);
    await openTab(guests, 'Sharing');
  });

  it('get another role, and leave', async () => {
    const people = part(owners, 'People');
    await people.getByLabel(`Role of ${guest.email}`).selectOption('operator');
    const members = () => dataOf(stage.owner.api.devices[':deviceId'].members.$get({ param: { deviceId }, query: {} }));
    await expect.poll(async () => (await members()).list).toMatchObject([{ email: guest.email, role: 'operator' }]);
    await part(guests, 'Shared with you').getByText('You are an operator').waitFor();
    await press(guests, 'Leave this device');
    await confirm(guests, 'Leave');
    await guests.getByRole('heading', { name: 'No device yet' }).waitFor();
    await people.getByText('Shared with nobody.').waitFor();
  });

  it('are uninvited, decline, and are removed', async () => {
    const people = part(owners, 'People');
    const invite = async () => {
      await press(owners, 'Invite somebody');
      await owners.getByRole('dialog').getByLabel('Email').fill(guest.email);
      await press(owners, 'Send the invitation');
      await owners.getByRole('dialog').waitFor({ state: 'detached' });
      await people.getByText('Open invitations').waitFor();
    };
    await invite();
    await press(owners, `Withdraw the invitation of ${guest.email}`);
    await people.getByText('Open invitations').waitFor({ state: 'detached' });
    await invite();
    await guests.reload();
    await press(guests, 'Decline');
    await part(guests, 'Invitation').waitFor({ state: 'detached' });
    await invite();
    await guests.reload();
    await press(guests, 'Accept');
    await guests.getByRole('listitem').filter({ hasText: 'shared, operator' }).waitFor();
    await press(owners, `Remove ${guest.email}`);
    await confirm(owners, 'Remove');
    await people.getByText('Shared with nobody.').waitFor();
    await guests.getByRole('heading', { name: 'No device yet' }).waitFor();
    expect((await guest.api.devices[':deviceId'].$get({ param: { deviceId } })).status).toBe(403);
  });

  it('are told that the owner needs no invitation', async () => {
    await press(owners, 'Invite somebody');
    await owners.getByRole('dialog').getByLabel('Email').fill(stage.owner.email);
    await press(owners, 'Send the invitation');
    await owners.getByText('(the device is your own)').waitFor();
    await press(owners, 'Close');
    expect(await takeProblems()).toEqual([expect.stringContaining('400')]);
  });

  /** The page of a link that works for a day: in the looks of the console, with the time of the guest. */
  async function showsGuest(path: string): Promise<void> {
    const api = stage.owner.api.devices[':deviceId']['guest-links'];
    const [link] = (await dataOf(api.$get({ param: { deviceId }, query: {} }))).list;
    const [made = 0, ends = 0] = [link?.createdAt, link?.expiresAt].map((time) => Date.parse(time ?? ''));
    expect(ends - made).toBeGreaterThan(24 * 3_600_000 - 30_000);
    const timeZone = 'Asia/Tokyo';
    const until = new Date(ends).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone });
    for (const colorScheme of ['light', 'dark'] as const) {
      const visitor = { colorScheme, timezoneId: timeZone };
      const [page, console] = [await stage.browser.open(path, visitor), await stage.browser.open('/', visitor)];
      await page.getByText(`until ${until}.`).waitFor();
      await console.locator('.primary').waitFor();
      expect(await page.evaluate(looksOf('button'))).toEqual(await console.evaluate(looksOf('.primary')));
      expect(await findBarriers(page)).toEqual([]);
      for (const opened of [page, console]) await opened.context().close();
    }
  }

  it('hand out a link with a button for somebody without an account, and revoke it', async () => {
    const links = part(owners, 'Guest links');
    await links.getByText('No guest link.').waitFor();
    await press(owners, 'Make a guest link');
    await owners.getByLabel('What the button does').selectOption('Move it down');
    await press(owners, 'Make the link');
    const address = await owners.getByRole('dialog').locator('.once code').textContent();
    await press(owners, 'Close');
    await links.getByText(/^used 0 of 1 · until /).waitFor();
    await owners.getByText(address ?? '').waitFor({ state: 'detached' });
    await showsGuest(new URL(address ?? '').pathname);
    await press(owners, 'Revoke the link: Move it down');
    await links.getByRole('button', { name: /^Revoke/ }).waitFor({ state: 'detached' });
    expect((await fetch(address ?? '')).status).not.toBe(200);
  });

  it('let a device pair again for a while', async () => {
    const ownership = part(owners, 'Ownership');
    await openTab(owners, 'Settings');
    await press(owners, 'Open the pairing window');
    await ownership
      .getByRole('timer')
      .getByText(/^Open for 1[45]:\d\d$/)
      .waitFor();
    const read = () => dataOf(stage.owner.api.devices[':deviceId'].ownership.$get({ param: { deviceId } }));
    expect((await read()).pairingUntil).not.toBe(null);
    await press(owners, 'Close it');
    await owners.getByRole('button', { name: 'Open the pairing window' }).waitFor();
    expect((await read()).pairingUntil).toBe(null);
  });

  it('hand a device over, after an offer that was withdrawn', async () => {
    const ownership = part(owners, 'Ownership');
    await owners.reload();
    await ownership.getByText('It is yours since').waitFor();
    for (const isWithdrawn of [true, false]) {
      await ownership.getByLabel('Email of the new owner').fill(guest.email);
      await press(owners, 'Offer it');
      await owners.getByRole('dialog').getByText(`Offer this device to ${guest.email}?`).waitFor();
      await confirm(owners, 'Offer it');
      await ownership.getByText(`Offered to ${guest.email}`).waitFor();
      if (isWithdrawn) await press(owners, 'Withdraw the offer');
    }
    await guests.reload();
    const offer = part(guests, 'Offered device');
    await offer.getByText(`${stage.owner.email} offers you`).waitFor();
    await press(guests, 'Take it over');
    await offer.waitFor({ state: 'detached' });
    await openDoor(guests, 'Settings');
    await part(guests, 'Ownership').getByText('It is yours since').waitFor();
    await owners.getByText('This device belongs to somebody else.').waitFor();
  });

  it('release a device after a plain warning', async () => {
    expect(await findBarriers(guests)).toEqual([]);
    await press(guests, 'Release this device');
    await guests.getByRole('dialog').getByText('This cannot be undone.').waitFor();
    await confirm(guests, 'Release for good');
    await guests.getByRole('heading', { name: 'No device yet' }).waitFor();
    await openDoor(owners, 'Settings');
    await part(owners, 'Ownership').getByText('nobody has claimed it').waitFor();
  });

  it('see all of it on a phone, in the dark', async () => {
    const phone = await stage.visit({ colorScheme: 'dark', viewport: { width: 360, height: 740 } });
    await openDoor(phone, 'Settings');
    await part(phone, 'Ownership').getByText('nobody has claimed it').waitFor();
    expect(await findBarriers(phone)).toEqual([]);
    await phone.context().close();
  });
});

/** Colours, corners and type of a page, its card and its button. */
const looksOf = (button: string) => `['body', '.card', '${button}'].map((selector) => {
  const { color, backgroundColor, borderColor, borderRadius, fontFamily, fontSize } =
    getComputedStyle(document.querySelector(selector));
  return { color, backgroundColor, borderColor, borderRadius, fontFamily, fontSize };
})`;
