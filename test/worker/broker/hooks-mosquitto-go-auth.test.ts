// mosquitto-go-auth's HTTP backend: JSON and form requests as its source makes them, answers byte by byte. Read in
// github.com/iegomez/mosquitto-go-auth at the tag 3.0.0: backends/http.go (members, statuses, time-out), backends/backends.go
// (`disable_superuser`), cache/cache.go (the key of a login is name and password), auth-plugin.c (a failed check is no
// "denied"); and in github.com/eclipse/mosquitto, v2.0.20, src/handle_connect.c (`connection_check_acl` deletes queued
// messages whose check does not succeed). What all vendors share is in hooks-vendors.test.
import { describe, expect, it } from 'vitest';
import { callHook, hookSecret } from '../rig/clients/hooks.ts';
import { provisionDevice, type TestDevice } from '../rig/provision.ts';

const path = (hook: string) => `mosquitto-go-auth/s/${hookSecret}/${hook}`;
const headers = { 'Content-Type': 'application/json', 'User-Agent': 'mosquitto-2.1.0' };
const ask = (hook: string, body: unknown) => callHook(path(hook), JSON.stringify(body), headers);

const allow = { status: 200, type: 'application/json', body: '{"ok":true,"error":""}' };
const forbidden = { ...allow, status: 403, body: '{"ok":false,"error":"forbidden"}' };

const loginOf = ({ name, password }: TestDevice) => ({ clientid: name, password, username: name });

it('allows a login, as JSON and as a form', async () => {
  const device = await provisionDevice();
  expect(await ask('user', loginOf(device))).toEqual(allow);
  const form = new URLSearchParams(loginOf(device)).toString();
  expect(await callHook(path('user'), form, { 'Content-Type': 'application/x-www-form-urlencoded' })).toEqual(allow);
});

it('knows no superuser', async () => {
  const device = await provisionDevice();
  for (const username of [device.name, 'latchwork-bridge', 'admin']) {
    expect(await ask('superuser', { username })).toEqual(forbidden);
  }
});

describe('the acl check', () => {
  const [read, both] = [1, 3];
  const own = '/sys/acme/dev_01abcdef';
  const check = (topic: string, acc: unknown, username = 'acme&dev_01abcdef') =>
    ask('acl', { acc, clientid: username, topic, username });

  it.each([
    [`${own}/thing/event/property/post`, both],
    [`${own}/thing/service/property/set`, read],
    [`${own}/anything`, read],
  ])('allows %s with access %d', async (topic, acc) => {
    expect(await check(topic, acc)).toEqual(allow);
  });

  it.each([
    [`${own}/thing/service/property/set`, both],
    ['/sys/acme/dev_01abcdeg/status', read],
    ['$SYS/broker/version', read],
    [`${own}/status`, 0],
    [`${own}/status`, 5],
    [`${own}/status`, 'write'],
  ])('refuses %s with access %s', async (topic, acc) => {
    expect(await check(topic, acc)).toEqual(forbidden);
  });

  it('reads the access out of a form, where it is text', async () => {
    const form = new URLSearchParams({
      username: 'acme&dev_01abcdef',
      clientid: 'x',
      topic: `${own}/status`,
      acc: '2',
    });
    const headersOfForm = { 'Content-Type': 'application/x-www-form-urlencoded' };
    expect(await callHook(path('acl'), form.toString(), headersOfForm)).toEqual(allow);
  });

  it('delivers to the bridge what its filters match', async () => {
    expect(await check(`${own}/status`, read, 'latchwork-bridge')).toEqual(allow);
    expect(await check(`${own}/thing/service/property/set`, read, 'latchwork-bridge')).toEqual(forbidden);
  });
});
