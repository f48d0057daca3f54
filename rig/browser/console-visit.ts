// What a person does in the console, by what is written on the screen. With SCREENSHOTS=FOLDER in the environment it takes pictures of
// each screen on which a test looks for barriers.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';

export async function signIn(page: Page, owner: { email: string; password: string }): Promise<void> {
  await page.getByLabel('Email or user name').fill(owner.email);
  await page.getByLabel('Password').fill(owner.password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('status').filter({ hasText: 'Live' }).waitFor();
}

export async function openDevice(page: Page, name: RegExp): Promise<void> {
  await page.getByRole('link', { name: 'Devices', exact: true }).click();
  await page.getByRole('link', { name }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
}

/** Of the device that is open. */
export async function openTab(page: Page, name: string): Promise<void> {
  const tab = page.getByRole('tab', { name, exact: true });
  await tab.click();
  await tab.and(page.locator('[aria-selected=true]')).waitFor();
}

const axePath = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
type AxeResult = { violations: { id: string; impact: string; help: string; nodes: { html: string }[] }[] };

/** Who looks at a screen: with what settings, on which device. */
export const visitors = [
  ['in light', { colorScheme: 'light' }],
  ['in dark', { colorScheme: 'dark' }],
  ['on a phone', { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true }],
] as const;

/** What keeps somebody out: serious and critical violations that axe-core finds, and a page that is wider than its window. */
export async function findBarriers(page: Page): Promise<string[]> {
  // Colours are judged once they have changed, not on their way.
  await page.emulateMedia({ reducedMotion: 'reduce' });
  // Not by a script element, which the page's policy refuses.
  await page.evaluate(readFileSync(axePath, 'utf8'));
  const { violations } = await page.evaluate<AxeResult>('axe.run()');
  const tooWide = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
  const pixels = await page.evaluate<number>(tooWide);
  const folder = process.env['SCREENSHOTS'];
  if (folder !== undefined) await takePictures(page, folder);
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  const found = serious.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join(' ')}`);
  return pixels > 0 ? [...found, `${pixels} pixels too wide`] : found;
}

let pictures = 0;

/** Named by the test; the numbers say in which order. */
async function takePictures(page: Page, folder: string): Promise<void> {
  const test = expect.getState().currentTestName?.replaceAll(/\W+/g, '-');
  const name = join(folder, `${test}-${String(++pictures).padStart(2, '0')}`);
  const viewport = page.viewportSize();
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: `${name}-${colorScheme}.png`, fullPage: true });
  }
  await page.emulateMedia({ colorScheme: null });
  await page.setViewportSize({ width: 390, height: 844 });
  await page.screenshot({ path: `${name}-phone.png`, fullPage: true });
  if (viewport !== null) await page.setViewportSize(viewport);
}
