// The self-signed TLS certificate of a local run: made in STATE_DIR/tls, and made again if a name is missing or it ends soon.
// Node has no writer for certificates, and libraries for them bring fifteen packages.
import { generateKeyPairSync, randomBytes, sign, X509Certificate } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { isIPv4 } from 'node:net';
import { join } from 'node:path';
import { writePrivateFile } from './secrets.ts';

const dayMs = 86_400_000;
const validDays = 3650;
const renewBeforeMs = 30 * dayMs;

/** @param host what boards connect to, beside this machine's own names */
export function prepareLocalCertificate(stateDir: string, host: string): { certFile: string; keyFile: string } {
  const dir = join(stateDir, 'tls');
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const [certFile, keyFile] = [join(dir, 'cert.pem'), join(dir, 'key.pem')];
  const hosts = [...new Set(['localhost', '127.0.0.1', host])];
  if (existsSync(certFile) && existsSync(keyFile) && isGood(certFile, hosts)) return { certFile, keyFile };
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const ecdsaWithSha256 = sequence(objectId('2a8648ce3d040302'));
  const commonName = sequence(der(0x31, sequence(objectId('550403'), der(0x0c, Buffer.from('latchwork')))));
  const content = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.concat([Buffer.from([1]), randomBytes(15)])),
    ecdsaWithSha256,
    commonName,
    sequence(utcTime(Date.now() - dayMs), utcTime(Date.now() + validDays * dayMs)),
    commonName,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(
      0xa3,
      sequence(
        // Basic constraints: boards trust it as an authority.
        extension('551d13', sequence(der(0x01, Buffer.from([0xff])))),
        extension('551d11', sequence(...hosts.map(alternativeName))),
      ),
    ),
  );
  const signature = der(0x03, Buffer.from([0]), sign('sha256', content, privateKey));
  const lines = sequence(content, ecdsaWithSha256, signature).toString('base64').replaceAll(/.{64}/g, '$&\n').trim();
  writePrivateFile(keyFile, privateKey.export({ type: 'pkcs8', format: 'pem' }).toString());
  writePrivateFile(certFile, `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`);
  return { certFile, keyFile };
}

function isGood(certFile: string, hosts: string[]): boolean {
  const { subjectAltName = '', validTo } = new X509Certificate(readFileSync(certFile));
  const names = subjectAltName.split(', ').map((name) => name.replace(/^.*:/, ''));
  return Date.parse(validTo) - Date.now() > renewBeforeMs && hosts.every((host) => names.includes(host));
}

function extension(id: string, value: Buffer): Buffer {
  return sequence(objectId(id), der(0x04, value));
}

function alternativeName(host: string): Buffer {
  return isIPv4(host) ? der(0x87, Buffer.from(host.split('.').map(Number))) : der(0x82, Buffer.from(host));
}

/** Good until 2049. */
function utcTime(atMs: number): Buffer {
  return der(0x17, Buffer.from(`${new Date(atMs).toISOString().replaceAll(/\D/g, '').slice(2, 14)}Z`));
}

function objectId(hex: string): Buffer {
  return der(0x06, Buffer.from(hex, 'hex'));
}

function sequence(...contents: Buffer[]): Buffer {
  return der(0x30, ...contents);
}

/** Tag, length and contents (X.690). */
function der(tag: number, ...contents: Buffer[]): Buffer {
  const content = Buffer.concat(contents);
  const { length } = content;
  const bytes = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...bytes]), content]);
}
