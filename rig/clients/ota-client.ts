// The device of examples/ota-client: builds it with checks of its memory and a power that can fail, gives it a folder, and starts it as often as it boots.
// Asserts nothing but that those checks found no error.
import { execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { hash, verify } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { SignedManifest } from '../../client/sign/firmware.ts';
import { Changes } from '../changes.ts';
import { makeTempDir } from '../temp-dirs.ts';
import type { Activation } from './accounts.ts';

const source = fileURLToPath(new URL('../../examples/ota-client', import.meta.url));
const powerCut = fileURLToPath(new URL('power-cut.c', import.meta.url));
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
  execFileSync('make', ['--silent', '-C', source, 'SANITIZE=1', `OUT=${program}`, `AROUND=${powerCut}`]);
  return program;
}

/**
 * `waitMs`: in place of all its waits; it gives up after eight of them without an answer. The power fails after byte `cutAt` of an image,
 * or after `cutAfter` changes of its files; 0 stands for never.
 */
export type BootOptions = { api?: string; waitMs?: number; isOverMqtt?: boolean; cutAt?: number; cutAfter?: number };

export class OtaDevice {
  readonly state = makeTempDir('ota-device');
  readonly activation: Activation;
  readonly #program: string;
  readonly #publicKey: string;
  readonly #api: string;
  #last: ChildProcess | undefined;

  /** Slot a holds the image; `publicKey` in PEM is the one that the device trusts. */
  constructor(
    program: string,
    { activation, api }: { activation: Activation; api: string },
    publicKey: string,
    { image, signed }: { image: Uint8Array; signed: SignedManifest },
  ) {
    this.#program = program;
    this.#publicKey = publicKey;
    this.activation = activation;
    this.#api = api;
    writeFileSync(join(this.state, 'key.pem'), publicKey);
    writeFileSync(join(this.state, 'slot-a'), image);
    writeFileSync(join(this.state, 'slot-a.manifest'), `${signed.manifest}\n${signed.signature}\n`);
  }

  boot({ api = this.#api, waitMs = 2_000, isOverMqtt = false, cutAt = 0, cutAfter = 0 }: BootOptions = {}): OtaBoot {
    const { clientId, password, port } = this.activation.mqtt;
    const env = {
      MQTT_NAME: clientId,
      MQTT_PASSWORD: password,
      MQTT_PORT: String(port),
      API: api,
      WAIT_MS: String(waitMs),
      CUT_AT: String(cutAt),
      CUT_AFTER: String(cutAfter),
      ASAN_OPTIONS: `exitcode=${sanitizerExitCode}`,
      ...(isOverMqtt && { OVER_MQTT: '1' }),
    };
    const started = spawn(this.#program, { cwd: this.state, env, stdio: ['ignore', 'pipe', 'pipe'] });
    this.#last = started;
    return new OtaBoot(started);
  }

  /** Ends what a failed test left running. */
  stop(): void {
    this.#last?.kill('SIGKILL');
  }

  /** What it boots without a trial. @throws Error if that is not what its maker signed */
  get booted(): { slot: string; version: string } {
    const read = (name: string) => readFileSync(join(this.state, name));
    const slot = existsSync(join(this.state, 'boot')) ? read('boot').toString().charAt(0) : 'a';
    const [manifest = '', signature = ''] = read(`slot-${slot}.manifest`).toString().split('\n');
    const { version, sha256 } = JSON.parse(manifest) as { version: string; sha256: string };
    const key = { key: this.#publicKey, dsaEncoding: 'ieee-p1363' as const };
    const isSigned = verify('sha256', Buffer.from(manifest), key, Buffer.from(signature, 'base64'));
    if (!isSigned || hash('sha256', read(`slot-${slot}`)) !== sha256) throw new Error(`${slot} is not genuine`);
    return { slot, version };
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
  async end(): Promise<{ code: number | string | null; lines: string[] }> {
    await this.#ended;
    const errors = await this.#errors;
    const { exitCode, signalCode } = this.#process;
    if (exitCode === sanitizerExitCode || errors.includes('runtime error')) throw new Error(errors);
    return { code: exitCode ?? signalCode, lines: this.#lines };
  }

  /** Its power fails. */
  async stop(): ReturnType<OtaBoot['end']> {
    this.#process.kill('SIGKILL');
    return this.end();
  }
}
