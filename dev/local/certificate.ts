// The TLS certificate of a local run, and the authority that a board has to trust for it: made once in STATE_DIR/tls, the
// certificate again where a name is missing or it ends soon. Writes the few ASN.1 forms by hand: libraries for them bring fifteen packages.
import { createHash, createPrivateKey, generateKeyPairSync, randomBytes, sign, X509Certificate } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { isIPv4 } from 'node:net';
import { join } from 'node:path';
import { writePrivateFile } from './secrets.ts';

export type LocalCertificate = Record<'caFile' | 'certFile' | 'keyFile', string>;
type Issuer = { name: string; key: KeyObject; publicKey: KeyObject };

const dayMs = 86_400_000;
const authorityName = 'Latchwork local authority';
const authorityDays = 3650;
const certificateDays = 365;
const renewBeforeMs = 30 * dayMs;

/** @param host what boards connect to, beside this machine's own names */
export function prepareLocalCertificate(stateDir: string, host: string): LocalCertificate {
  const dir = join(stateDir, 'tls');
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const [caFile, caKeyFile] = [join(dir, 'ca.pem'), join(dir, 'ca.key')];
  const [certFile, keyFile] = [join(dir, 'server.pem'), join(dir, 'server.key')];
  const hosts = [...new Set(['localhost', '127.0.0.1', host])];
  if (!existsSync(caFile) || !existsSync(caKeyFile)) {
    const { privateKey, publicKey } = newKey();
    const issuer = { name: authorityName, key: privateKey, publicKey };
    const extensions = [
      extension('551d13', der(0x30, boolean(true)), true),
      // keyCertSign and cRLSign.
      extension('551d0f', Buffer.from([0x03, 2, 1, 0x06]), true),
    ];
    writePrivateFile(caKeyFile, pemOf(privateKey));
    writePrivateFile(caFile, certificate(authorityName, publicKey, issuer, authorityDays, extensions));
  } else if (existsSync(keyFile) && isGood(certFile, caFile, hosts)) return { caFile, certFile, keyFile };
  const { privateKey, publicKey } = newKey();
  const authority = new X509Certificate(readFileSync(caFile));
  const issuer = {
    name: authorityName,
    key: createPrivateKey(readFileSync(caKeyFile)),
    publicKey: authority.publicKey,
  };
  const extensions = [
    extension('551d13', der(0x30), true),
    // digitalSignature; serverAuth.
    extension('551d0f', Buffer.from([0x03, 2, 7, 0x80]), true),
    extension('551d25', der(0x30, oid('2b06010505070301'))),
    extension('551d11', der(0x30, ...hosts.map(nameOfHost))),
  ];
  writePrivateFile(keyFile, pemOf(privateKey));
  writePrivateFile(certFile, certificate('latchwork', publicKey, issuer, certificateDays, extensions));
  return { caFile, certFile, keyFile };
}

function isGood(certFile: string, caFile: string, hosts: string[]): boolean {
  if (!existsSync(certFile)) return false;
  const found = new X509Certificate(readFileSync(certFile));
  const authority = new X509Certificate(readFileSync(caFile));
  const names = found.subjectAltName ?? '';
  return (
    found.verify(authority.publicKey) &&
    Date.parse(found.validTo) - Date.now() > renewBeforeMs &&
    hosts.every((host) => names.split(', ').includes(`${isIPv4(host) ? 'IP Address' : 'DNS'}:${host}`))
  );
}

function newKey() {
  return generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
}

function pemOf(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' }).toString();
}

/** X.509 version 3 (RFC 5280), signed with ECDSA and SHA-256, as PEM. */
function certificate(name: string, publicKey: KeyObject, issuer: Issuer, days: number, extensions: Buffer[]): string {
  const algorithm = der(0x30, oid('2a8648ce3d040302'));
  const [from, until] = [Date.now() - dayMs, Date.now() + days * dayMs];
  const content = der(
    0x30,
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.concat([Buffer.from([0x01]), randomBytes(15)])),
    algorithm,
    distinguishedName(issuer.name),
    der(0x30, time(from), time(until)),
    distinguishedName(name),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(
      0xa3,
      der(
        0x30,
        ...extensions,
        extension('551d0e', der(0x04, keyId(publicKey))),
        extension('551d23', der(0x30, der(0x80, keyId(issuer.publicKey)))),
      ),
    ),
  );
  const signature = der(0x03, Buffer.from([0]), sign('sha256', content, issuer.key));
  const lines =
    der(0x30, content, algorithm, signature)
      .toString('base64')
      .match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
}

function keyId(publicKey: KeyObject): Buffer {
  return createHash('sha1')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest();
}

function extension(id: string, value: Buffer, isCritical = false): Buffer {
  return der(0x30, oid(id), ...(isCritical ? [boolean(true)] : []), der(0x04, value));
}

function nameOfHost(host: string): Buffer {
  return isIPv4(host) ? der(0x87, Buffer.from(host.split('.').map(Number))) : der(0x82, Buffer.from(host));
}

/** The common name alone. */
function distinguishedName(name: string): Buffer {
  return der(0x30, der(0x31, der(0x30, oid('550403'), der(0x0c, Buffer.from(name)))));
}

/** UTCTime before 2050, GeneralizedTime from then on. */
function time(atMs: number): Buffer {
  const digits = `${new Date(atMs).toISOString().replaceAll(/\D/g, '').slice(0, 14)}Z`;
  return digits < '2050' ? der(0x17, Buffer.from(digits.slice(2))) : der(0x18, Buffer.from(digits));
}

function boolean(value: boolean): Buffer {
  return der(0x01, Buffer.from([value ? 0xff : 0]));
}

function oid(hex: string): Buffer {
  return der(0x06, Buffer.from(hex, 'hex'));
}

/** Tag, length and contents. */
function der(tag: number, ...contents: Buffer[]): Buffer {
  const content = Buffer.concat(contents);
  const { length } = content;
  const bytes = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...bytes]), content]);
}
