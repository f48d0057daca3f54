// mosquitto as Debian runs it, under its own user, set up by root with the scripts of the guide: accounts outlive a restart.
import { spawnSync } from 'node:child_process';
import { afterEach, describe, expect, test } from 'vitest';
import {
  describeClient,
  dynamicSecurityMissing,
  startDynamicMosquitto,
} from '../../rig/brokers/mosquitto-dynamic-security.ts';
import type { Mosquitto } from '../../rig/brokers/mosquitto.ts';
import { findFreePort } from '../../rig/ports.ts';

const isRoot = process.getuid?.() === 0;
const hasUser = spawnSync('id', ['mosquitto']).status === 0;
const bridge = { clientId: 'latchwork-bridge-of-the-test', password: 'password-of-the-bridge-at-mosquitto' };

const brokers: Mosquitto[] = [];
afterEach(async () => {
  for (const broker of brokers.splice(0)) await broker.stop();
});

describe.skipIf(dynamicSecurityMissing !== null || !isRoot || !hasUser)('mosquitto under its own user', () => {
  test('has the accounts after a restart that it was given before', async () => {
    const broker = await startDynamicMosquitto(await findFreePort(), bridge, 'mosquitto');
    brokers.push(broker);
    await broker.stop();
    await broker.startAgain();
    expect(describeClient(broker, 'latchwork-bridge')).toContain(bridge.clientId);
  });
});
