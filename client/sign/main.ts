#!/usr/bin/env node
// `latchwork-sign`: a maker's keys and signed manifests, as files. Nothing leaves the machine: it prints the calls that upload.
import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import * as firmware from './firmware.ts';

const usage = `Usage:
  latchwork-sign keygen --key FILE [--algorithm p256|ed25519]
  latchwork-sign sign   --key FILE --product KEY --version V [--minimum-version V] [--security] [--notes TEXT] IMAGE
  latchwork-sign verify --key FILE.pub IMAGE

  keygen writes FILE (the private key: keep it off servers, keep a copy) and FILE.pub.
  sign writes IMAGE.json, which is the body of POST /products/{productKey}/firmware. verify checks IMAGE and IMAGE.json.
  Exit code 0: done, 1: a file, key or image is wrong, 2: the command line is.`;

const options = {
  key: { type: 'string' },
  algorithm: { type: 'string', default: 'p256' },
  product: { type: 'string' },
  version: { type: 'string' },
  'minimum-version': { type: 'string' },
  security: { type: 'boolean' },
  notes: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const;

class UsageError extends Error {
  override readonly name = 'UsageError';
}

const nextStep: Record<string, string> = {
  EEXIST: 'it is kept: choose another name',
  ENOENT: 'check the name; `sign` writes IMAGE.json',
  EACCES: 'check the rights of the file and its folder',
};
const curl = `curl -H "Authorization: Bearer $TOKEN"`;
const json = `-H 'Content-Type: application/json'`;

try {
  await run();
} catch (error) {
  const { message, code = '' } = error as NodeJS.ErrnoException;
  const isUsage = error instanceof UsageError || code.startsWith('ERR_PARSE_ARGS');
  const advice = isUsage ? '--help shows what there is' : nextStep[code];
  console.error(`latchwork-sign: ${message}${advice === undefined ? '' : ` (${advice})`}`);
  process.exitCode = isUsage ? 2 : 1;
}

async function run(): Promise<void> {
  const { values, positionals } = parseArgs({ allowPositionals: true, options });
  if (values.help === true) {
    console.log(usage);
    return;
  }
  const [command, image, ...rest] = positionals;
  const key = required('--key FILE', values.key);
  if (rest.length > 0) throw new UsageError(`one image at a time, not also ${rest.join(' ')}`);
  if (command === 'keygen') return keygen(key, values.algorithm);
  if (command === 'verify') return verify(key, required('IMAGE', image));
  if (command !== 'sign') throw new UsageError(`keygen, sign or verify, not ${command ?? 'nothing'}`);
  const { 'minimum-version': minimumVersion, security, notes } = values;
  const product = required('--product KEY', values.product);
  const version = required('--version V', values.version);
  return sign(key, required('IMAGE', image), { product, version, minimumVersion, security, notes });
}

async function keygen(keyFile: string, algorithm: string): Promise<void> {
  if (algorithm !== 'p256' && algorithm !== 'ed25519') throw new UsageError(`p256 or ed25519, not ${algorithm}`);
  const { privateKey, publicKey } = await firmware.createKeyPair(algorithm);
  const pem = await firmware.writePem(publicKey);
  writeFileSync(keyFile, await firmware.writePem(privateKey), { mode: 0o600, flag: 'wx' });
  writeFileSync(`${keyFile}.pub`, pem, { flag: 'wx' });
  console.log(`Key id ${await firmware.keyIdOf(publicKey)}. Keep ${keyFile} secret, and keep a copy of it.
Build ${keyFile}.pub into the firmware, and register it ($API ends with /api/v1, $TOKEN is an access token):
  ${curl} ${json} -d '${JSON.stringify({ publicKey: pem })}' $API/products/PRODUCT/firmware-keys`);
}

async function sign(keyFile: string, imageFile: string, facts: firmware.ManifestFacts): Promise<void> {
  const key = await firmware.readPem(readFileSync(keyFile, 'utf8'), 'private');
  const signed = await firmware.signImage(readFileSync(imageFile), key, facts);
  writeFileSync(`${imageFile}.json`, JSON.stringify(signed));
  const url = `$API/products/${facts.product}/firmware`;
  console.log(`Wrote ${imageFile}.json. Upload both ($API ends with /api/v1, $TOKEN is an access token):
  ${curl} ${json} --data-binary @${imageFile}.json ${url}
  ${curl} -T ${imageFile} ${url}/${facts.version}/image`);
}

async function verify(keyFile: string, imageFile: string): Promise<void> {
  const key = await firmware.readPem(readFileSync(keyFile, 'utf8'), 'public');
  const signed = readSigned(`${imageFile}.json`);
  const { product, version } = await firmware.verifyImage(readFileSync(imageFile), key, signed);
  console.log(`${imageFile} is ${product} ${version}, signed by this key.`);
}

function readSigned(file: string): firmware.SignedManifest {
  const text = readFileSync(file, 'utf8');
  if (/^\{"manifest":"[^\n]*","signature":"[\w+/]{86}=="\}\s*$/.test(text))
    return JSON.parse(text) as firmware.SignedManifest;
  throw new firmware.FirmwareError(`${file} is not what \`sign\` writes: sign the image again`);
}

function required(what: string, value: string | undefined): string {
  if (value === undefined) throw new UsageError(`${what} is missing`);
  return value;
}
