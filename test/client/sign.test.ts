// The maker's tool as a process: keys, signed manifests, and what it refuses. OpenSSL judges keys and signatures.
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash, createPublicKey, verify } from 'node:crypto';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import { makeTempDir } from '../../rig/temp-dirs.ts';

const program = join(import.meta.dirname, '../../client/sign/main.ts');
const image = Buffer.from('ok\nimage');
let folder: string;
beforeEach(() => {
  folder = makeTempDir('sign');
  writeFileSync(join(folder, 'app.bin'), image);
});

const read = (file: string) => readFileSync(join(folder, file), 'utf8');
const run = (...args: string[]) =>
  execFileSync(process.execPath, [program, ...args], { cwd: folder, encoding: 'utf8' });
const sign = (...more: string[]) =>
  run('sign', '--key', 'maker', '--product', 'pk', '--version', '1.2', ...more, 'app.bin');
const refusal = (...args: string[]) => {
  const { status, stderr } = spawnSync(process.execPath, [program, ...args], { cwd: folder, encoding: 'utf8' });
  return `${status} ${stderr}`;
};

it.each(['p256', 'ed25519'])('makes a key of %s, signs the image, and verifies it', (algorithm) => {
  const printed = run('keygen', '--key', 'maker', '--algorithm', algorithm);
  expect(statSync(join(folder, 'maker')).mode & 0o777).toBe(0o600);
  const publicKey = createPublicKey(read('maker.pub'));
  expect(createPublicKey(read('maker')).equals(publicKey)).toBe(true);
  const keyId = createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('hex');
  expect(printed).toContain(`Key id ${keyId.slice(0, 16)}.`);

  expect(sign('--minimum-version', '1.0', '--security', '--notes', 'Zürich "fix"')).toContain('/firmware/1.2/image');
  const { manifest, signature } = JSON.parse(read('app.bin.json')) as { manifest: string; signature: string };
  const sha256 = createHash('sha256').update(image).digest('hex');
  const facts = { product: 'pk', version: '1.2', size: image.length, sha256 };
  expect(JSON.parse(manifest)).toEqual({ ...facts, minimumVersion: '1.0', security: true, notes: 'Zürich "fix"' });
  const key = { key: publicKey, dsaEncoding: 'ieee-p1363' } as const;
  const digest = algorithm === 'p256' ? 'sha256' : null;
  expect(verify(digest, Buffer.from(manifest), key, Buffer.from(signature, 'base64'))).toBe(true);
  expect(run('verify', '--key', 'maker.pub', 'app.bin')).toContain('pk 1.2');
});

it('says what is wrong with keys, versions, notes and images, and keeps the keys that there are', () => {
  run('keygen', '--key', 'maker');
  const key = read('maker');
  expect(refusal('keygen', '--key', 'maker')).toMatch(/^1 .*choose another name/);
  expect(read('maker')).toBe(key);
  const signing = ['sign', '--key', 'maker', '--product', 'pk', '--version'];
  expect(refusal(...signing, '1.x', 'app.bin')).toMatch(/^1 .*as in 1\.2\.10/);
  expect(refusal(...signing, '1', '--notes', 'x'.repeat(201), 'app.bin')).toMatch(/^1 .*shorten the notes/);
  expect(refusal(...signing, '1', 'none.bin')).toMatch(/^1 .*check the name/);
  expect(refusal(...signing, '1')).toMatch(/^2 .*IMAGE is missing/);
  expect(refusal('keygen', '--key', 'other', '--algorithm', 'rsa')).toMatch(/^2 .*p256 or ed25519/);
  writeFileSync(join(folder, 'app.bin'), '');
  expect(refusal(...signing, '1', 'app.bin')).toMatch(/^1 .*0 bytes/);
});

it('does not verify another image, another key, or a private key', () => {
  run('keygen', '--key', 'maker');
  run('keygen', '--key', 'other');
  sign();
  expect(refusal('verify', '--key', 'other.pub', 'app.bin')).toMatch(/^1 .*not of this key/);
  expect(refusal('verify', '--key', 'maker', 'app.bin')).toMatch(/^1 .*no public key/);
  writeFileSync(join(folder, 'app.bin'), 'ok\nimages');
  expect(refusal('verify', '--key', 'maker.pub', 'app.bin')).toMatch(/^1 .*changed after it was signed/);
  writeFileSync(join(folder, 'app.bin.json'), '{"manifest":1}');
  expect(refusal('verify', '--key', 'maker.pub', 'app.bin')).toMatch(/^1 .*sign the image again/);
});
