// Public keys of makers, and the signatures of their manifests. The service holds no private key of a maker: it can sign nothing.
/** `begin`: of its public keys in SPKI (RFC 8410; RFC 5480, uncompressed). */
const algorithms = {
  ed25519: { name: 'Ed25519', begin: '302a300506032b6570032100' },
  p256: {
    ...{ name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' },
    begin: '3059301306072a8648ce3d020106082a8648ce3d03010703420004',
  },
};
type Algorithm = keyof typeof algorithms;
const names = Object.keys(algorithms) as Algorithm[];
/** `publicKey`: SPKI in base64. */
export type FirmwareKey = { keyId: string; algorithm: Algorithm; publicKey: string };

const pemPattern = /^\s*-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]{32,400})-----END PUBLIC KEY-----\s*$/;

/** Undefined for what is no public key in PEM of one of the algorithms. */
export async function readPublicKey(pem: string): Promise<FirmwareKey | undefined> {
  try {
    const spki = Uint8Array.fromBase64(pemPattern.exec(pem)?.[1] ?? '');
    const algorithm = names.find((name) => spki.toHex().startsWith(algorithms[name].begin));
    if (algorithm === undefined) return undefined;
    const publicKey = spki.toBase64();
    await importKey({ algorithm, publicKey });
    const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', spki));
    return { keyId: digest.toHex().slice(0, 16), algorithm, publicKey };
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof DOMException) return undefined;
    throw error;
  }
}

/** @param signature base64: 64 bytes, of P-256 as r and s */
export async function findSigner<Key extends FirmwareKey>(
  keys: readonly Key[],
  manifest: string,
  signature: string,
): Promise<Key | undefined> {
  const [text, given] = [new TextEncoder().encode(manifest), Uint8Array.fromBase64(signature)];
  for (const key of keys) {
    if (await crypto.subtle.verify(algorithms[key.algorithm], await importKey(key), given, text)) return key;
  }
  return undefined;
}

function importKey({ algorithm, publicKey }: Pick<FirmwareKey, 'algorithm' | 'publicKey'>): Promise<CryptoKey> {
  return crypto.subtle.importKey('spki', Uint8Array.fromBase64(publicKey), algorithms[algorithm], true, ['verify']);
}
