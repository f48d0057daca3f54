// The certificate of a local run: what boards verify, and when another one is made.
import { X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { prepareLocalCertificate } from '../../../dev/local/certificate.ts';
import { makeTempDir } from '../../../rig/temp-dirs.ts';

const read = (path: string) => new X509Certificate(readFileSync(path));

test('one authority for good; its certificate is for the names of this machine, and another one where a name is missing', () => {
  const dir = makeTempDir('certificate');
  const { caFile, certFile, keyFile } = prepareLocalCertificate(dir, '127.0.0.1');
  const [authority, first] = [read(caFile), read(certFile)];
  expect(authority.ca).toBe(true);
  expect(authority.verify(authority.publicKey)).toBe(true);
  expect(first.verify(authority.publicKey)).toBe(true);
  expect(first.checkIssued(authority)).toBe(true);
  expect([first.ca, first.checkIP('127.0.0.1'), first.checkHost('localhost')]).toEqual([
    false,
    '127.0.0.1',
    'localhost',
  ]);
  expect(first.checkHost('switch.lan')).toBeUndefined();
  expect(Date.parse(first.validFrom)).toBeLessThan(Date.now());
  for (const file of [keyFile, join(dir, 'tls', 'ca.key')]) expect(statSync(file).mode & 0o777).toBe(0o600);

  prepareLocalCertificate(dir, '127.0.0.1');
  expect(read(certFile).serialNumber).toBe(first.serialNumber);
  prepareLocalCertificate(dir, 'switch.lan');
  expect(read(certFile).checkHost('switch.lan')).toBe('switch.lan');
  expect(read(certFile).checkIssued(read(caFile))).toBe(true);
  prepareLocalCertificate(dir, '192.168.1.20');
  expect(read(certFile).checkIP('192.168.1.20')).toBe('192.168.1.20');
  expect(read(caFile).fingerprint256).toBe(authority.fingerprint256);
});
