// The whole service and one browser for all console tests, started once. Each file makes an account of its own there
// (console-visit.ts). Asserts nothing; ends what it started.
import type { TestProject } from 'vitest/node';
import { browserMissing, launchBrowser } from '../browser/browser.ts';
import { WholeService } from './whole-service.ts';

declare module 'vitest' {
  // eslint-disable-next-line @typescript-eslint/consistent-type-definitions -- only interfaces merge
  interface ProvidedContext {
    console: { url: string; browser: string };
  }
}

export default async function startService(project: TestProject): Promise<() => Promise<void>> {
  if (browserMissing !== null) {
    project.provide('console', { url: '', browser: '' });
    return () => Promise.resolve();
  }
  const [service, browser] = await Promise.all([
    WholeService.start({ VAPID_KEY: 'q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94' }),
    launchBrowser(),
  ]);
  project.provide('console', { url: service.rig.url, browser: browser.wsEndpoint() });
  return async () => {
    await browser.close();
    await service.stop();
  };
}
