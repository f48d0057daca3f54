// Firmware as its maker signs it: keys, versions, manifests and signatures. Web Crypto alone, so that Node and Workers run it;
// reads no files.

export type SignedManifest = { manifest: string; signature: string };
export type ManifestFacts = {
  product: string;
  version: string;
  /** Devices below it refuse the image. */
  minimumVersion?: string | undefined;
  security?: boolean | undefined;
  notes?: string | undefined;
};
type Bytes = Uint8Array<ArrayBuffer>;
/** The types of Node have only the class. */
type Key = InstanceType<typeof CryptoKey>;

/** What the maker has to change. The message says what to do. */
export class FirmwareError extends Error {
  override readonly name = 'FirmwareError';
}

/** For `generateKey`, `importKey`, `sign` and `verify` alike. */
export const keyAlgorithms = {
  p256: { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' },
  ed25519: { name: 'Ed25519' },
};
const imageMaxBytes = 16 * 1024 * 1024;
const manifestMaxBytes = 1024;
const notesMaxCharacters = 200;
const versionPattern = /^\d{1,5}(\.\d{1,5}){0,3}$/;
const { subtle } = crypto;

export async function createKeyPair(algorithm: keyof typeof keyAlgorithms = 'p256') {
  const pair = await subtle.generateKey(keyAlgorithms[algorithm], true, ['sign', 'verify']);
  return pair as { privateKey: Key; publicKey: Key };
}

/** The first 16 hex characters of the SHA-256 of the key's SPKI. */
export async function keyIdOf(publicKey: Key): Promise<string> {
  return (await sha256Of(await exportKey('spki', publicKey))).slice(0, 16);
}

export async function writePem(key: Key): Promise<string> {
  const bytes = await exportKey(key.type === 'private' ? 'pkcs8' : 'spki', key);
  const label = `${key.type.toUpperCase()} KEY`;
  const lines = toBase64(bytes).match(/.{1,64}/g) ?? [];
  return [`-----BEGIN ${label}-----`, ...lines, `-----END ${label}-----`, ''].join('\n');
}

/** @throws FirmwareError if it is no key of this kind */
export async function readPem(pem: string, kind: 'private' | 'public'): Promise<Key> {
  const label = `${kind.toUpperCase()} KEY`;
  const [, body = ''] = new RegExp(`-----BEGIN ${label}-----([^-]+)-----END ${label}-----`).exec(pem) ?? [];
  const [format, use] = kind === 'private' ? (['pkcs8', 'sign'] as const) : (['spki', 'verify'] as const);
  let cause: unknown;
  for (const algorithm of Object.values(keyAlgorithms)) {
    try {
      return await subtle.importKey(format, fromBase64(body), algorithm, true, [use]);
    } catch (error) {
      cause = error;
    }
  }
  throw new FirmwareError(`no ${kind} key of P-256 or Ed25519 in PEM: make one with \`latchwork-sign keygen\``, {
    cause,
  });
}

/** @throws FirmwareError if a fact has a form that the service and devices refuse */
export async function signImage(image: Bytes, key: Key, facts: ManifestFacts): Promise<SignedManifest> {
  const { product, version, minimumVersion, security, notes } = facts;
  const refuseIf = (isWrong: boolean, problem: string): void => {
    if (isWrong) throw new FirmwareError(problem);
  };
  const isNoVersion = [version, minimumVersion ?? version].some((one) => !versionPattern.test(one));
  refuseIf(isNoVersion, 'a version has 1 to 4 numbers of at most 5 digits, as in 1.2.10');
  const size = image.byteLength;
  refuseIf(size === 0 || size > imageMaxBytes, `the image has ${size} bytes: make it 1 to ${imageMaxBytes} bytes`);
  refuseIf((notes ?? '').length > notesMaxCharacters, `shorten the notes to ${notesMaxCharacters} characters`);
  const sha256 = await sha256Of(image);
  const manifest = JSON.stringify({
    product,
    version,
    size,
    sha256,
    minimumVersion,
    security: security || undefined,
    notes,
  });
  const bytes = new TextEncoder().encode(manifest);
  refuseIf(bytes.byteLength > manifestMaxBytes, `the manifest is over ${manifestMaxBytes} bytes: shorten the notes`);
  return { manifest, signature: toBase64(await subtle.sign(algorithmOf(key), key, bytes)) };
}

/** The facts that it signs. @throws FirmwareError if the signature or the image is another */
export async function verifyImage(image: Bytes, key: Key, signed: SignedManifest): Promise<ManifestFacts> {
  const bytes = new TextEncoder().encode(signed.manifest);
  const isSigned = await subtle.verify(algorithmOf(key), key, fromBase64(signed.signature), bytes);
  if (!isSigned) throw new FirmwareError('the signature is not of this key: sign again, or use the other public key');
  const { size, sha256, ...facts } = JSON.parse(signed.manifest) as ManifestFacts & { size: number; sha256: string };
  if (size === image.byteLength && sha256 === (await sha256Of(image))) return facts;
  throw new FirmwareError('the image changed after it was signed: sign it again');
}

async function exportKey(format: 'pkcs8' | 'spki', key: Key): Promise<ArrayBuffer> {
  // The types of Workers add what other formats answer.
  const bytes: unknown = await subtle.exportKey(format, key);
  return bytes as ArrayBuffer;
}

const algorithmOf = ({ algorithm }: Key) => (algorithm.name === 'Ed25519' ? keyAlgorithms.ed25519 : keyAlgorithms.p256);

async function sha256Of(bytes: Bytes | ArrayBuffer): Promise<string> {
  const digest = new Uint8Array(await subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

const toBase64 = (bytes: ArrayBuffer) => btoa(String.fromCharCode(...new Uint8Array(bytes)));
const fromBase64 = (text: string) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
