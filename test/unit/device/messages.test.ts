// What a device's message means, however loosely it is written (field notes 44-49).
import { globSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import {
  lastRejectedSlice,
  noteRejected,
  readMessage,
  type LastRejected,
} from '../../../src/domain/device/messages/messages.ts';
import { changedProperties } from '../../../src/domain/device/messages/properties.ts';
import type { Json } from '../../../src/domain/json.ts';
import { isKnownProperty, knownProperties, topicActions } from '../../../src/protocol/mqtt.ts';
import { limitsOf } from '../limits-of.ts';
import { newState } from '../../../src/domain/device/core/state.ts';

const { propertyPost, propertySetReply, status } = topicActions;

function report(...properties: [string, Json][]) {
  return { kind: 'report', properties: new Map(properties) };
}

describe('a message on the property-post topic', () => {
  it('in full form is a report', () => {
    const payload = {
      method: 'thing.event.property.post',
      id: '1',
      params: { position: 'up', angle: 90, wifi_rssi: -60 },
      time: 1,
    };
    expect(readMessage(propertyPost, JSON.stringify(payload))).toEqual({
      ...report(['position', 'up'], ['angle', 90], ['wifi_rssi', -60]),
      timeMs: 1,
    });
  });

  it('drops wrongly typed known properties one by one and keeps unknown ones', () => {
    const payload = { params: { position: 'sideways', angle: '90', wifi_rssi: -60, uptime: 12, tags: ['a'] } };
    expect(readMessage(propertyPost, JSON.stringify(payload))).toEqual({
      ...report(['wifi_rssi', -60], ['uptime', 12], ['tags', ['a']]),
      dropped: ['position', 'angle'],
    });
  });

  it('takes of the known properties what their schemas take', () => {
    const numbers = [0, -0, 1.5, 2 ** 53 - 1, 2 ** 53, 1e400];
    const values = ['up', 'middle', 'down', 'Up', '', ...numbers, true, null, [], {}, ['up']];
    for (const [name, schema] of Object.entries(knownProperties)) {
      const taken = values.filter((value) => isKnownProperty(name as keyof typeof knownProperties, value));
      expect(taken).toEqual(values.filter((value) => schema.safeParse(value).success));
      expect(taken.length).toBeGreaterThan(2);
    }
  });

  it('holds a known property to the range of its schema alone', () => {
    const schemas: Record<string, z.ZodType> = knownProperties;
    schemas['battery'] = z.int().min(0).max(100);
    const readBattery = (battery: number) => readMessage(propertyPost, JSON.stringify({ params: { battery } }));
    expect(readBattery(100)).toEqual(report(['battery', 100]));
    expect(readBattery(101)).toEqual({ ...report(), dropped: ['battery'] });
    delete schemas['battery'];
  });

  it('has known properties whose change path names each file that knows one', () => {
    const path = readFileSync('CONTRIBUTING.md', 'utf8').split('### A device property')[1]?.split('###')[0] ?? '';
    const files = ['src', 'console/src', 'client/src', 'dev'].flatMap((folder) => globSync(`${folder}/**/*.{ts,tsx}`));
    const marks = /wifi_rssi|position: null|positionIn\(|positionSchema\.nullable|viewStatus\(\{/;
    const knowing = files.filter((file) => marks.test(readFileSync(file, 'utf8')));
    expect(knowing.length).toBeGreaterThan(8);
    expect(knowing.filter((file) => !path.includes(basename(file)))).toEqual([]);
  });

  it.each([
    ['a string id', { id: '17', code: 200 }, '17', 200],
    ['an id that is a number', { id: 17, code: 500 }, '17', 500],
    ['no id', { code: 200 }, undefined, 200],
    ['no code', { id: '17', data: {} }, '17', undefined],
  ])('with the method of a reply and %s is a reply', (_, members, id, code) => {
    const payload = { method: 'thing.service.property.set_reply', params: { position: 'up' }, ...members };
    expect(readMessage(propertyPost, JSON.stringify(payload))).toEqual({ kind: 'reply', id, code });
  });

  it.each([
    ['', 'not_json'],
    ['position=up', 'not_json'],
    ['null', 'not_an_object'],
    ['[{"position":"up"}]', 'not_an_object'],
    ['"up"', 'not_an_object'],
    ['{"params":[1]}', 'params_not_an_object'],
    ['{"params":null}', 'params_not_an_object'],
    [`{"params":{"a":${'['.repeat(31)}${']'.repeat(31)}}}`, 'too_complex'],
    [`{"params":{${Array.from({ length: 1025 }, (_, n) => `"${n}":1`).join()}}}`, 'too_complex'],
    ['['.repeat(16_000), 'not_json'],
    ['{"method":"thing.event.alarm.post","params":{}}', 'unknown_method'],
  ])('of %j is refused as %s', (payload, reason) => {
    expect(readMessage(propertyPost, payload)).toEqual({ kind: 'invalid', reason });
  });

  it('may nest and count as much as it says', () => {
    const deep = `{"params":{"a":${'['.repeat(30)}${']'.repeat(30)}}}`;
    const many = `{"params":{${Array.from({ length: 1023 }, (_, n) => `"${n}":1`).join()}}}`;
    for (const payload of [deep, many]) expect(readMessage(propertyPost, payload)).toMatchObject({ kind: 'report' });
  });

  it('cannot reach into prototypes', () => {
    const outcome = readMessage(propertyPost, '{"params":{"__proto__":{"position":"up"},"constructor":1}}');
    expect(outcome).toEqual(report(['__proto__', { position: 'up' }], ['constructor', 1]));
  });
});

describe('a message on the other topics', () => {
  it('on set_reply is a reply, with or without method', () => {
    expect(readMessage(propertySetReply, '{"id":"1","code":200}')).toMatchObject({ kind: 'reply', id: '1' });
  });

  it.each(['online', 'offline'])('on status says %s, with a time of its own or none', (word) => {
    for (const time of [undefined, 0, 'yesterday', 4_000_000_000_000]) {
      const payload = JSON.stringify({ status: word, time });
      expect(readMessage(status, payload)).toEqual({ kind: 'status', status: word });
    }
  });

  it.each(['{}', '{"status":"asleep"}', '{"status":true}'])('on status %s is refused', (payload) => {
    expect(readMessage(status, payload)).toEqual({ kind: 'invalid', reason: 'invalid_status' });
  });
});

describe('merging a report', () => {
  it('finds what is new or different, and leaves the rest alone', () => {
    const known: [string, Json, number][] = [
      ['position', 'up', 1],
      ['angle', 90, 1],
      ['tags', { a: [1] }, 1],
    ];
    const reported = new Map<string, Json>([
      ['position', 'down'],
      ['tags', { a: [1] }],
      ['uptime', 5],
    ]);
    expect([...changedProperties(known, reported)]).toEqual([
      ['position', 'down'],
      ['uptime', 5],
    ]);
  });

  it('takes no more than 64 properties and always the position, and still changes those it has', () => {
    const known = Array.from({ length: 64 }, (_, index) => [`p${index}`, 0, 1] as const);
    const reported = new Map<string, Json>(Object.entries({ p3: 1, 'one too many': 1, position: 'up' }));
    expect([...changedProperties(known, reported)]).toEqual([
      ['p3', 1],
      ['position', 'up'],
    ]);
  });
});

describe('what was not understood', () => {
  const propertyPost = 'thing/event/property/post' as const;
  const settings = { reportsConnections: true, keepAliveSeconds: 60, asksAtLogin: true, limits: limitsOf('') };
  const stateWith = (lastRejected: LastRejected | null) => ({ ...newState(settings), lastRejected });
  const shownOf = (payload: string, former: LastRejected | null = null) => {
    const message = { action: propertyPost, payload };
    return noteRejected(stateWith(former), readMessage(propertyPost, payload), message, 1_000).lastRejected;
  };

  it.each([
    ['{"params":{"position":"sideways","angle":5}}', 'wrong_type', ['position']],
    ['{"position":3,"angle":"x"}', 'wrong_type', ['position', 'angle']],
    ['on', 'not_json', []],
    ['[1]', 'not_an_object', []],
    ['{"method":"reboot"}', 'unknown_method', []],
    ['{"params":7}', 'params_not_an_object', []],
  ])('%s is shown as %s', (payload, reason, dropped) => {
    expect(shownOf(payload)).toEqual({ action: propertyPost, reason, dropped, text: payload, atMs: 1_000 });
  });

  it('stays until the next one, whatever is understood meanwhile', () => {
    const former = shownOf('on');
    expect(shownOf('{"params":{"position":"up"}}', former)).toBe(former);
  });

  it('is cut after 200 bytes, never inside a character', () => {
    expect(shownOf('x'.repeat(300))?.text).toBe('x'.repeat(200));
    expect(shownOf('ä'.repeat(150))?.text).toBe('ä'.repeat(100));
    expect(shownOf(`x${'ä'.repeat(150)}`)?.text).toBe(`x${'ä'.repeat(99)}`);
  });

  it('costs a row where it is new, else one in a quarter of an hour', () => {
    const first = shownOf('on');
    const isRejectedWorthSaving = (saved: LastRejected | null, present: LastRejected | null) => {
      const [before, after] = [saved, present].map(stateWith);
      return lastRejectedSlice.isWorthSaving?.(before!, after!, 0);
    };
    expect(isRejectedWorthSaving(null, first)).toBe(true);
    expect(isRejectedWorthSaving(first, null)).toBe(true);
    expect(isRejectedWorthSaving(null, null)).toBe(false);
    expect(isRejectedWorthSaving(first, { ...first!, atMs: 800_000 })).toBe(false);
    expect(isRejectedWorthSaving(first, { ...first!, atMs: 901_001 })).toBe(true);
    expect(isRejectedWorthSaving(first, { ...first!, reason: 'wrong_type' })).toBe(true);
  });
});
