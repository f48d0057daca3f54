// What the example configurations must hold, whether or not their broker can be run here. mosquitto's and RabbitMQ's are
// also started by brokers/real-brokers.
import { readFileSync, readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { bridgeRights } from '../../../src/domain/topic-rights.ts';
import { readExample } from '../../../rig/brokers/broker-examples.ts';

const folder = new URL('../../../broker-bridge/examples/', import.meta.url);
const compose = readFileSync(new URL('../compose.yaml', folder), 'utf8');
const files = readdirSync(folder, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile())
  .map(({ parentPath, name }) => `${parentPath.split('/').at(-1)}/${name}`);

/** The settings of a file, without comments. */
const settingsOf = (path: string): string =>
  readExample(path)
    .split('\n')
    .filter((line) => !/^\s*(#|%)/.test(line))
    .join('\n');
const countOf = (text: string, pattern: RegExp): number => [...text.matchAll(pattern)].length;

it('are linked from the guide, each of them', () => {
  const guide = readFileSync(new URL('../BROKERS.md', folder), 'utf8');
  expect(files.filter((file) => !guide.includes(`examples/${file}`))).toEqual([]);
});

it('hold no secret of anybody', () => {
  for (const file of files) expect(readExample(file), file).not.toMatch(/(?:sk|tk)_[A-Za-z0-9]{6}|[0-9a-f]{32}/);
});

describe.each(['emqx/emqx-5.8.hocon', 'emqx/emqx-5.4.hocon'])('%s', (file) => {
  const text = settingsOf(file);

  it('checks the certificate at each address', () => {
    const verified = /ssl \{ enable = true, verify = verify_peer, cacertfile = "[^"]+" \}/g;
    expect(countOf(text, /url = "https:/g)).toBeGreaterThan(0);
    expect(countOf(text, verified)).toBe(countOf(text, /url = "/g));
  });

  it('keeps events in order, for as long as it takes', () => {
    expect(text).toContain('pool_type = hash');
    expect(text).toContain('resource_opts { request_ttl = infinity }');
  });

  it('denies what no rule allows', () => {
    expect(text).toMatch(/authorization \{\s+no_match = deny/);
  });
});

it('emqx: ask about rights and disconnect where they do not come with the login', () => {
  expect(settingsOf('emqx/emqx-5.8.hocon')).toContain('sources = []');
  expect(settingsOf('emqx/emqx-5.4.hocon')).toContain('deny_action = disconnect');
  expect(settingsOf('emqx/emqx-5.4.hocon')).toContain('/hooks/emqx/authz');
});

it('rabbitmq: know the service alone, name the port, and check the certificate', () => {
  const text = settingsOf('rabbitmq/rabbitmq.conf');
  expect(text.match(/^auth_backends\..*$/gm)).toEqual(['auth_backends.1 = http']);
  expect(text).not.toMatch(/https:\/\/[^:/]+\//);
  expect(settingsOf('rabbitmq/advanced.config')).toContain('{verify, verify_peer}');
  expect(settingsOf('rabbitmq/tls-3.13.conf')).toContain('auth_http.ssl_options.verify = verify_peer');
  expect(settingsOf('rabbitmq/anonymous-4.conf').trim()).toBe('anonymous_login_user = none');
});

it('mosquitto: give the bridge its rights, and no others but to the control topics', () => {
  const script = settingsOf('mosquitto/bridge-account.sh');
  const granted = [...script.matchAll(/addRoleACL latchwork-bridge (\w+) '?([^\s']+)'? allow/g)];
  const acls = granted.map(([, type, topic]) => `${type} ${topic}`).filter((acl) => !acl.includes('$CONTROL'));
  const type = { publish: 'publishClientSend', subscribe: 'subscribeLiteral' };
  expect(acls).toEqual(bridgeRights.map(({ action, topic }) => `${type[action]} ${topic}`));
});

it('compose.yaml takes every secret from a file', () => {
  expect(compose).not.toMatch(/(SECRET|PASSWORD|KEY)\w*: (?!\/run\/secrets\/)/);
  expect(compose).not.toMatch(/Bearer/);
  expect(countOf(compose, /file: \.\/secrets\//g)).toBe(3);
});

it.each([
  ['mosquitto/mosquitto.conf', 'listener 8883', 'listener 1883 127.0.0.1'],
  ['rabbitmq/rabbitmq.conf', 'mqtt.listeners.ssl.default = 8883', 'mqtt.listeners.tcp.1 = 127.0.0.1:1883'],
  ['emqx/emqx-5.4.hocon', 'listeners.ssl.default {', 'listeners.tcp.default.bind = "127.0.0.1:1883"'],
  ['emqx/emqx-5.8.hocon', 'listeners.ssl.default {', 'listeners.tcp.default.bind = "127.0.0.1:1883"'],
])('%s: offer no listener without TLS to other machines', (file, tls, plain) => {
  const lines = settingsOf(file).split('\n');
  expect(lines).toContain(tls);
  expect(lines.indexOf(tls)).toBeLessThan(lines.indexOf(plain));
  expect(lines.filter((line) => line.includes('1883'))).toEqual([plain]);
});

it('mosquitto: save before a crash can lose it', () => {
  expect(settingsOf('mosquitto/mosquitto.conf')).toMatch(/^autosave_on_changes true\nautosave_interval 1$/m);
});

it('give no password to a program as an argument', () => {
  for (const script of ['before-first-start.sh', 'bridge-account.sh']) {
    for (const line of settingsOf(`mosquitto/${script}`)
      .split('\n')
      .filter((line) => line.includes('PASSWORD')))
      expect(line).toMatch(/^(password\(\) \{ )?printf '%s\\n' /);
  }
  expect(compose).not.toContain('1883:1883');
});

it.each([
  ['mosquitto/mosquitto.conf', 'max_packet_size 65536'],
  ['emqx/emqx-5.4.hocon', 'max_packet_size = "64KB"'],
  ['emqx/emqx-5.8.hocon', 'max_packet_size = "64KB"'],
  ['rabbitmq/tls-3.13.conf', 'mqtt.max_packet_size_authenticated = 65536'],
])('%s: take no packet of megabytes', (file, setting) => {
  expect(settingsOf(file)).toContain(setting);
});
