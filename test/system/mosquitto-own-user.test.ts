// mosquitto as Debian runs it, under its own user, set up by root with the scripts of the guide: accounts outlive a restart, and
// a file that it cannot write is noticed.
import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import {
  deleteClient,
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
    expect(describeClient(broker, 'latchwork-bridge-check')).toContain('latchwork-bridge-check');
  });

  test('loses what it cannot write, though it answers as if it had', async () => {
    const broker = await startDynamicMosquitto(await findFreePort(), bridge, 'mosquitto');
    brokers.push(broker);
    const file = join(broker.dir, 'dynamic-security.json');
    chownSync(file, 0, 0);
    chmodSync(file, 0o644);
    deleteClient(broker, 'latchwork-bridge');
    await broker.stop();
    await broker.startAgain();
    expect(describeClient(broker, 'latchwork-bridge')).toContain(bridge.clientId);
  });
});
