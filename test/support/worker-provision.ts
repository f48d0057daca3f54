// Devices with a session and no record in D1, for tests of the messaging paths, which never touch D1. Asserts nothing.
import { env } from 'cloudflare:workers';
import { createId, createSecret, digestOf } from '../../src/crypto/secrets.ts';
import { messagingName, type DeviceIdentity } from '../../src/domain/topics.ts';

export type TestDevice = DeviceIdentity & { name: string; password: string };

export async function provisionDevice({ ownerId = 1, productKey = 'switch' } = {}): Promise<TestDevice> {
  const deviceId = createId('dev_', 8);
  const password = createSecret('tk_', 48);
  await sessionOf(deviceId).provision({
    productKey,
    ownerId,
    name: 'A switch',
    controlMode: 'toggle',
    offlineGraceSeconds: 0,
    productChangedAtMs: 0,
    secretDigest: await digestOf('sk_of-the-device'),
    passwordDigest: await digestOf(password),
  });
  return { productKey, deviceId, name: messagingName({ productKey, deviceId }), password };
}

export function sessionOf(deviceId: string) {
  return env.DEVICE_SESSION.getByName(deviceId);
}
