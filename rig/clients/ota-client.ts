// The device of examples/ota-client: builds it with checks of its memory, gives it a folder, and starts it as often as it boots.
// Asserts nothing but that those checks found no error.
import { execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { SignedManifest } from '../../client/sign/firmware.ts';
import { Changes } from '../changes.ts';
import { makeTempDir } from '../temp-dirs.ts';

const source = fileURLToPath(new URL('../../examples/ota-client', import.meta.url));
const headers = ['mosquitto.h', 'cjson/cJSON.h', 'mbedtls/pk.h', 'curl/curl.h'];
const packages = 'gcc make libmosquitto-dev libcjson-dev libmbedtls-dev libcurl4-openssl-dev';
const sanitizerExitCode = 99;

/** Why its tests are skipped here, or null if it can be built. */
export const otaClientMissing = canCompile() ? null : `the OTA client cannot be built (apt-get install ${packages})`;

function canCompile(): boolean {
  const input = headers.map((header) => `#include <${header}>\n`).join('');
  const compiled = spawnSync('gcc', ['-fsyntax-only', '-x', 'c', '-'], { input, stdio: ['pipe', 'ignore', 'ignore'] });
  return compiled.status === 0 && spawnSync('make', ['--version']).status === 0;
}

/** The path of the program. */
export function buildOtaClient(): string {
  const program = join(makeTempDir('ota-client'), 'ota-client');
  execFileSync('make', ['--silent', '-C', source, 'SANITIZE=1', `OUT=${program}`]);
  return program;
}

/** Where it connects, and as whom: `name` is the clientId of its activation. */
export type OtaService = { name: string; password?: string; mqttPort: number; api: string };
export type BootOptions = { isOverMqtt?: boolean; cutAt?: number; cutStep?: string };

export class OtaDevice {
  readonly state = makeTempDir('ota-device');
  readonly #program: string;
  readonly #service: OtaService;

  /** Slot a holds the image; `publicKey` in PEM is the one that the device trusts. */
  constructor(program: string, service: OtaService, publicKey: string, image: Uint8Array, signed: SignedManifest) {
    this.#program = program;
    this.#service = service;
    mkdirSync(join(this.state, 'keys'));
    writeFileSync(join(this.state, 'keys/maker.pem'), publicKey);
    writeFileSync(join(this.state, 'slot-a'), image);
    writeFileSync(join(this.state, 'slot-a.manifest'), `${signed.manifest}\n${signed.signature}\n`);
  }

  boot({ isOverMqtt = false, cutAt, cutStep }: BootOptions = {}): OtaBoot {
    const { name, password, mqttPort, api } = this.#service;
    const args = ['--state', this.state, '--name', name, '--port', String(mqttPort), '--api', api, '--wait-ms', '300'];
    if (isOverMqtt) args.push('--mqtt');
    if (cutAt !== undefined) args.push('--cut-at', String(cutAt));
    if (cutStep !== undefined) args.push('--cut-step', cutStep);
    const env = { ...process.env, MQTT_PASSWORD: password, ASAN_OPTIONS: `exitcode=${sanitizerExitCode}` };
    return new OtaBoot(spawn(this.#program, args, { env, stdio: ['ignore', 'pipe', 'pipe'] }));
  }
}

/** One run of the program. */
export class OtaBoot {
  readonly #process: ChildProcess;
  readonly #lines: string[] = [];
  readonly #changes = new Changes();
  readonly #errors: Promise<string>;
  readonly #ended: Promise<unknown>;

  constructor(started: ChildProcess) {
    this.#process = started;
    this.#errors = text(started.stderr!);
    this.#ended = once(started, 'close');
    createInterface(started.stdout!).on('line', (line) => {
      this.#lines.push(line);
      this.#changes.note();
    });
  }

  /** The first line that begins so, whether it was printed already or not. */
  async untilLine(begin: string): Promise<string> {
    const find = () => this.#lines.find((line) => line.startsWith(begin));
    const hasEnded = () => this.#process.exitCode !== null || this.#process.signalCode !== null;
    await this.#changes.until(
      () => `a line ${begin} after ${this.#lines.join(', ')}`,
      () => find() !== undefined || hasEnded(),
    );
    return find() ?? `ended without a line ${begin}: ${await this.#errors}`;
  }

  /** How it ended by itself: its exit code or signal. @throws Error if the checks of its memory found something */
  async end(): Promise<{ code: number | string | null; lines: string[]; errors: string }> {
    await this.#ended;
    const errors = await this.#errors;
    const { exitCode, signalCode } = this.#process;
    if (exitCode === sanitizerExitCode || errors.includes('runtime error')) throw new Error(errors);
    return { code: exitCode ?? signalCode, lines: this.#lines, errors };
  }

  async stop(): ReturnType<OtaBoot['end']> {
    this.#process.kill('SIGTERM');
    return this.end();
  }
}
