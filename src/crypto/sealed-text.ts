// Text that has to lie in the database for a moment and must not be readable there: AES-256-GCM under a key derived from
// a secret of the configuration. Decides nothing about what is sealed or for how long.

const ivBytes = 12;
/** RFC 5869 3.2: one secret, several uses, one label each. */
const label = 'latchwork broker outbox';

/** `bound` is said again when it is opened, so that one sealed text cannot stand in for another. */
export async function sealText(text: string, secret: string, bound: string): Promise<string> {
  const iv = crypto.getRandomValues(new Uint8Array(ivBytes));
  const sealed = await crypto.subtle.encrypt(parametersOf(iv, bound), await deriveKey(secret), encode(text));
  return btoa(String.fromCharCode(...iv, ...new Uint8Array(sealed)));
}

/** undefined where none of the secrets opens it: it was sealed under one that is gone, or changed since. */
export async function openText(sealed: string, secrets: readonly string[], bound: string): Promise<string | undefined> {
  const bytes = Uint8Array.from(atob(sealed), (character) => character.charCodeAt(0));
  const [iv, body] = [bytes.subarray(0, ivBytes), bytes.subarray(ivBytes)];
  for (const secret of secrets) {
    try {
      return new TextDecoder().decode(
        await crypto.subtle.decrypt(parametersOf(iv, bound), await deriveKey(secret), body),
      );
    } catch {
      // Not this one.
    }
  }
  return undefined;
}

function parametersOf(iv: Uint8Array, bound: string) {
  return { name: 'AES-GCM', iv, additionalData: encode(bound) };
}

async function deriveKey(secret: string): Promise<CryptoKey> {
  const material = await crypto.subtle.importKey('raw', encode(secret), 'HKDF', false, ['deriveKey']);
  const derivation = { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(), info: encode(label) };
  return crypto.subtle.deriveKey(derivation, material, { name: 'AES-GCM', length: 256 }, false, ['encrypt', 'decrypt']);
}

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
