// The certificate of a local run: what boards verify, and when another one is made.
import { X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { expect, test } from 'vitest';
import { prepareLocalCertificate } from '../../../dev/local/certificate.ts';
import { makeTempDir } from '../../../rig/temp-dirs.ts';

const read = (path: string) => new X509Certificate(readFileSync(path));

test('it is for the names of this machine, and another one is made where a name is missing', () => {
  const dir = makeTempDir('certificate');
  const { certFile, keyFile } = prepareLocalCertificate(dir, '127.0.0.1');
  const first = read(certFile);
  expect(first.verify(first.publicKey)).toBe(true);
  expect([first.checkIP('127.0.0.1'), first.checkHost('localhost')]).toEqual(['127.0.0.1', 'localhost']);
  expect(first.checkHost('switch.lan')).toBeUndefined();
  expect(Date.parse(first.validFrom)).toBeLessThan(Date.now());
  expect(statSync(keyFile).mode & 0o777).toBe(0o600);

  prepareLocalCertificate(dir, '127.0.0.1');
  expect(read(certFile).serialNumber).toBe(first.serialNumber);
  prepareLocalCertificate(dir, 'switch.lan');
  expect(read(certFile).checkHost('switch.lan')).toBe('switch.lan');
  prepareLocalCertificate(dir, '192.168.1.20');
  expect(read(certFile).checkIP('192.168.1.20')).toBe('192.168.1.20');
});
