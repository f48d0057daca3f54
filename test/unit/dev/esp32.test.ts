// The firmware examples against stubs of the libraries they use: a type check, and what the button does. No toolchain.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { makeTempDir } from '../../../rig/temp-dirs.ts';

const root = join(import.meta.dirname, '../../..');
const sketch = join(root, 'examples/esp32/arduino/latchwork_switch/latchwork_switch.ino');
const main = join(root, 'examples/esp32/esp-idf/main/main.c');
const isMissing = spawnSync('g++', ['--version']).error !== undefined;

/** Runs a compiler; each header that is not the language's own is the stub. Answers what it complains of. */
function compile(compiler: string, source: string, stub: string, options: string[]): string {
  const include = makeTempDir('esp32');
  const stubPath = join(import.meta.dirname, 'esp32', stub);
  for (const [, name = ''] of readFileSync(source, 'utf8').matchAll(/^#include ["<](.+)[">]$/gm)) {
    if (['stdio.h', 'string.h'].includes(name)) continue;
    mkdirSync(dirname(join(include, name)), { recursive: true });
    writeFileSync(join(include, name), `#include "${stubPath}"\n`);
  }
  const { stderr } = spawnSync(compiler, ['-Wall', '-Wextra', '-Wno-unused-parameter', '-I', include, ...options], {
    encoding: 'utf8',
  });
  return stderr;
}

test.skipIf(isMissing)('the ESP-IDF example compiles', () => {
  expect(compile('gcc', main, 'esp-idf.h', ['-std=gnu17', '-fsyntax-only', main])).toBe('');
});

test('the ESP-IDF example shares its state with no other task: what the tasks of Wi-Fi and MQTT run uses none of it', () => {
  const source = readFileSync(main, 'utf8');
  const bodyOf = (name: string) =>
    source.split(new RegExp(`^static void ${name}\\(.*\\{$`, 'm'))[1]?.split(/^\}$/m)[0] ?? '';
  const state = [...source.matchAll(/^static (?:char|int|uint16_t|esp_mqtt_client_handle_t) (.+);$/gm)].flatMap(
    ([, names = '']) => [...names.matchAll(/(\w+)(?:\[\d+\])?(?: = [^,]+)?(?:, |$)/g)].map(([, name = '']) => name),
  );
  expect(state).toEqual(['client', 'server', 'name', 'password', 'base', 'port', 'position', 'next_id']);
  for (const task of ['on_wifi', 'on_mqtt']) {
    expect(bodyOf(task)).not.toBe('');
    expect(state.filter((name) => new RegExp(`(?<![>.\\w])${name}\\b`).test(bodyOf(task)))).toEqual([]);
  }
});

test.skipIf(isMissing)(
  'the Arduino example compiles, and erases its flash once the button was held for five seconds',
  () => {
    const dir = makeTempDir('esp32');
    const [program, driver] = [join(dir, 'driver'), join(dir, 'driver.cpp')];
    const steps = [
      [1_000, 'LOW', false],
      [4_000, 'HIGH', false],
      [9_000, 'LOW', false],
      [13_999, 'LOW', false],
      [14_000, 'LOW', true],
    ] as const;
    const checks = steps.map(
      ([ms, level, erased]) =>
        `nowMs = ${ms}; buttonLevel = ${level}; loop(); if (isErased != ${erased}) return ${ms / 1000};`,
    );
    writeFileSync(driver, `#include <WiFi.h>\n#include "${sketch}"\nint main() { setup(); ${checks.join(' ')} }\n`);
    expect(compile('g++', sketch, 'arduino.h', ['-std=gnu++17', driver, '-o', program])).toBe('');
    expect(spawnSync(program).status).toBe(0);
  },
);
