// Messaging passwords that prove where they come from: a random part and a code over product, device and that part
// (HMAC-SHA-256), so that a guess is told from an issued one without asking the device's object. Whether an issued one is
// still valid, only the object knows.
import { credentialRefused, refuse, type Outcome } from '../domain/refusal.ts';
import { createSecret, deriveDigits, digestOf, importMacKeys, isEqualDigest } from './secrets.ts';

const prefix = 'tk_';
/** 131 bits. */
const randomLength = 22;
/** 154 bits. Together 48 characters (contract 2.7). */
const codeLength = 26;
const length = prefix.length + randomLength + codeLength;
/** One secret may have several uses, each with its own label. */
const label = 'latchwork messaging password';

type Device = { productKey: string; deviceId: string };

/** The first secret certifies. */
export async function createMessagingPassword(secrets: readonly string[], device: Device): Promise<string> {
  const [current] = await importMacKeys(secrets);
  if (current === undefined) throw new Error('no messaging secret');
  const random = createSecret(prefix, randomLength);
  return random + (await codeOf(current, device, random));
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
  if (await isCertified(secrets, device, password)) return { ok: true, value: await digestOf(password) };
  return refuse(credentialRefused('messaging_password', 'wrong'));
}

export async function isCertified(secrets: readonly string[], device: Device, password: string): Promise<boolean> {
  if (password.length !== length) return false;
  const random = password.slice(0, prefix.length + randomLength);
  const given = password.slice(random.length);
  const codes = await Promise.all((await importMacKeys(secrets)).map((key) => codeOf(key, device, random)));
  return codes.map((code) => isEqualDigest(code, given)).includes(true);
}

/** Product keys and device ids hold no line break, so that no two devices share a text. */
function codeOf(key: CryptoKey, { productKey, deviceId }: Device, random: string): Promise<string> {
  return deriveDigits(key, [label, productKey, deviceId, random].join('\n'), codeLength);
}
