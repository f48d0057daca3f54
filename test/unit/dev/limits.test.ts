// The settings of limits: what an operator writes is read or refused with its name, and the page lists every limit.
import { globSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { renderLimitsPage } from '../../../dev/limits.ts';
import { readConfig } from '../../../broker-bridge/src/config.ts';
import { readConfig as readGatewayConfig } from '../../../mqtt-gateway/src/config.ts';
import { gatewaySecret, bridgeEnvironment, makeSpoolDir } from '../../../rig/services/processes.ts';
import { limitSpecs } from '../../../src/limits.ts';
import { limitsOf } from '../limits-of.ts';

const testDir = new URL('../../', import.meta.url);
const readmeOf = (part: string) => readFileSync(new URL(`../../../${part}/README.md`, import.meta.url), 'utf8');

/** Settings that are whole numbers in the table of a README, with their defaults. */
function settingsIn(part: string): Record<string, number> {
  const rows = [...readmeOf(part).matchAll(/^\| (`[A-Z_]+`(?:, `[A-Z_]+`)*) +\| (\d+(?:, \d+)*) +\|/gm)];
  const pairs = rows.flatMap(([, names = '', values = '']) =>
    names.split(', ').map((name, index) => [name.replaceAll('`', ''), Number(values.split(', ')[index])]),
  );
  return Object.fromEntries(pairs) as Record<string, number>;
}

describe('limits', () => {
  it('keeps the default of a limit that is not named', () => {
    expect(limitsOf('').apiKeysPerUser).toBe(limitSpecs.apiKeysPerUser.default);
    expect(limitsOf(' apiKeysPerUser=3 ,').apiKeysPerUser).toBe(3);
  });

  it.each([
    ['apiKeys=3', /no limit "apiKeys"/],
    ['toString=3', /no limit "toString"/],
    ['apiKeysPerUser', /whole number from 1 to 1000/],
    ['apiKeysPerUser=-1', /whole number/],
    ['apiKeysPerUser=0', /whole number/],
    ['apiKeysPerUser=1e2', /whole number/],
  ])('refuses %s with its name', (text, reason) => {
    expect(() => limitsOf(text)).toThrow(reason);
  });

  it('stand on their page with their defaults, each once', () => {
    const { page, rendered } = renderLimitsPage();
    expect(page, 'run: npm run limits').toBe(rendered);
    for (const name of Object.keys(limitSpecs)) expect(page.split(`| \`${name}\` |`)).toHaveLength(2);
    expect(page.match(/_LIMIT` \|/g)).toHaveLength(16);
  });

  it('of the bridge stand in its README', () => {
    const config = readConfig(
      bridgeEnvironment({ workerUrl: 'https://api.test', mqttUrl: 'mqtts://b.test', spoolDir: makeSpoolDir() }),
    );
    if ('problems' in config) throw new Error(config.problems.join());
    const { spool, rates, uplink } = config;
    expect(settingsIn('broker-bridge')).toMatchObject(
      Object.fromEntries([
        ['SPOOL_MAX_BYTES', spool.maxBytes],
        ['DEVICE_MESSAGES_PER_SECOND', rates.messagesPerSecond],
        ['UPLINK_STALLED_AFTER_SECONDS', uplink.stalledAfterMs / 1000],
      ]),
    );
  });

  it('of the gateway stand in its README', () => {
    const config = readGatewayConfig({ WORKER_URL: 'https://api.test', GATEWAY_SECRET: gatewaySecret });
    if ('problems' in config) throw new Error(config.problems.join());
    const { limits, drainMs } = config;
    expect(settingsIn('mqtt-gateway')).toMatchObject(
      Object.fromEntries([
        ['MAX_CONNECTIONS', limits.connections],
        ['MAX_UNAUTHENTICATED', limits.unauthenticated],
        ['MAX_UNAUTHENTICATED_PER_ADDRESS', limits.unauthenticatedPerAddress],
        ['DRAIN_SECONDS', drainMs / 1000],
      ]),
    );
  });
});

const tests = globSync('{unit,worker,bridge,gateway,system}/**/*.test.ts', { cwd: testDir })
  // This file only lists limits.
  .filter((path) => path !== 'unit/dev/limits.test.ts')
  .map((path) => readFileSync(new URL(path, testDir), 'utf8'))
  .join('\n');
const ofParts = ['broker-bridge', 'mqtt-gateway']
  .flatMap((part) => Object.keys(settingsIn(part)))
  .filter((name) => !name.endsWith('_PORT'));

it.each([...Object.keys(limitSpecs), ...ofParts])('a test reaches %s', (name) => {
  expect(new RegExp(`\\b${name}\\b`).test(tests), 'no test names it').toBe(true);
});
