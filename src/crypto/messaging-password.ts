// Messaging passwords that prove where they come from: a random part and a code over product, device and that part
// (HMAC-SHA-256), so that a guess is told from an issued one without asking the device's object. Whether an issued one is
// still valid, only the object knows.
import { refuse, type Outcome } from '../domain/refusal.ts';
import { certifySecret, codeLength, createSecret, digestOf, openCertified } from './secrets.ts';

const prefix = 'tk_';
/** 131 bits; with the code 48 characters in all (contract 2.7). */
const randomLength = 22;
const length = prefix.length + randomLength + codeLength;

type Device = { productKey: string; deviceId: string };

export async function createMessagingPassword(secrets: readonly string[], device: Device): Promise<string> {
  return certifySecret(secrets, partsOf(device), createSecret(prefix, randomLength));
}

/**
 * The digest by which the object knows the password. Refused without asking the object: a guess, another device's password,
 * a password whose secret was removed.
 */
export async function digestIfCertified(
  secrets: readonly string[],
  device: Device,
  password: string,
): Promise<Outcome<string>> {
  const isCertified =
    password.length === length && (await openCertified(secrets, partsOf(device), password)) !== undefined;
  if (isCertified) return { ok: true, value: await digestOf(password) };
  const { deviceId } = device;
  return refuse({ kind: 'credential_refused', credential: 'messaging_password', problem: 'wrong', deviceId });
}

/** Product keys and device ids hold no line break, so that no two devices share a text. */
function partsOf({ productKey, deviceId }: Device): string[] {
  return ['latchwork messaging password', productKey, deviceId];
}
