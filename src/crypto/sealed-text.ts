// Encrypts text that is stored: AES-256-GCM under a key derived from a secret of the configuration. Decides nothing about
// what is stored or for how long.

const ivBytes = 12;
/** RFC 5869 3.2: one secret may have several uses, each with its own label. */
type Use = 'broker outbox' | 'webhook';

/** `bound` must be the same when it is opened, so that one sealed text cannot replace another. */
export async function sealText(text: string, secret: string, bound: string, use: Use): Promise<string> {
  const iv = crypto.getRandomValues(new Uint8Array(ivBytes));
  const sealed = await crypto.subtle.encrypt(parametersOf(iv, bound), await deriveKey(secret, use), encode(text));
  return btoa(String.fromCharCode(...iv, ...new Uint8Array(sealed)));
}

/** undefined if none of the secrets opens it: it was sealed under a removed one, or was changed. */
export async function openText(
  sealed: string,
  secrets: readonly string[],
  bound: string,
  use: Use,
): Promise<string | undefined> {
  const bytes = Uint8Array.from(atob(sealed), (character) => character.charCodeAt(0));
  const [iv, body] = [bytes.subarray(0, ivBytes), bytes.subarray(ivBytes)];
  for (const secret of secrets) {
    try {
      return new TextDecoder().decode(
        await crypto.subtle.decrypt(parametersOf(iv, bound), await deriveKey(secret, use), body),
      );
    } catch (error) {
      // WebCrypto's error for text that was sealed with another key.
      if (!(error instanceof DOMException && error.name === 'OperationError')) throw error;
    }
  }
  return undefined;
}

function parametersOf(iv: Uint8Array, bound: string) {
  return { name: 'AES-GCM', iv, additionalData: encode(bound) };
}

async function deriveKey(secret: string, use: Use): Promise<CryptoKey> {
  const material = await crypto.subtle.importKey('raw', encode(secret), 'HKDF', false, ['deriveKey']);
  const derivation = { name: 'HKDF', hash: 'SHA-256', salt: new Uint8Array(), info: encode(`latchwork ${use}`) };
  return crypto.subtle.deriveKey(derivation, material, { name: 'AES-GCM', length: 256 }, false, ['encrypt', 'decrypt']);
}

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
