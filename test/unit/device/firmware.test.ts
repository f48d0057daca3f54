// Updates of a device's firmware on the core: how each state ends, and what proves a new version. Images, MQTT and campaigns:
// test/worker/firmware.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fuzzSeed } from '../../../rig/inputs/fuzzing.ts';
import { inPerson } from '../../../src/domain/access.ts';
import { dayMs, hourMs, minuteMs, secondMs } from '../../../src/domain/time.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';
import { CoreDevice, up } from './core-device.ts';

const { otaInform, otaProgress, otaGet, status } = topicActions;
const start = Date.UTC(2027, 5, 6, 22);
const [former, next] = ['1.0.0', '1.2.0'];
const offer = { campaignId: 'c1', orderedAtMs: 1, version: next, minimumVersion: null, size: 1_000, hash: 'h' };

const give = (device: CoreDevice, more: object = {}, isStopped = false) => {
  const { productKey } = device;
  return device.run({ kind: 'update_offered', offer: { ...offer, productKey, isSecurity: false, ...more }, isStopped });
};
const inform = (device: CoreDevice, version: string) => device.receive(otaInform, { version });
const say = (device: CoreDevice, step: string, more = {}) => device.receive(otaProgress, { step, ...more });
const fetch = (device: CoreDevice, endsAt = 1_000, campaignId = 'c1') =>
  device.run({ kind: 'image_asked', campaignId, endsAt });
/** As the object does that has read the bytes. */
const get = (device: CoreDevice, offset: number, length: number) => {
  device.receive(otaGet, { offset, length });
  fetch(device, offset + length, updateOf(device)?.campaignId);
};
const postpone = (device: CoreDevice) => device.run({ kind: 'update_postponed', actor: inPerson(1) });
const press = (device: CoreDevice) => device.request({ params: up, ttlSeconds: undefined }).outcome;
const updateOf = (device: CoreDevice) => device.state.firmware.update;
const outcomeOf = (device: CoreDevice) => [updateOf(device)?.state, updateOf(device)?.reason].filter(Boolean).join(' ');
const tellings = (device: CoreDevice) => device.effects.filter(({ kind }) => kind === 'tell_upgrade').length;

/** How sessions of a device are known: what its broker or service tells, and how one begins and ends. */
const ways = {
  'the reports of its broker': {
    settings: {},
    begin: (device: CoreDevice) => device.connect(),
    end: (device: CoreDevice) => device.disconnect(),
  },
  'its logins': {
    settings: { reportsConnections: false },
    begin: (device: CoreDevice) =>
      void device.run({ kind: 'login_attempted', relayShard: undefined, ...loginOf(device) }),
    end: (device: CoreDevice) => void device.receive(status, { status: 'offline' }),
  },
  'direct connections': {
    settings: {},
    begin: (device: CoreDevice) => void device.run({ kind: 'direct_connected', takenOver: null, ...loginOf(device) }),
    end: (device: CoreDevice) => {
      const startedAtMs = device.state.presence.connection.sessionStartedAtMs ?? 0;
      const end = { startedAtMs, reason: 'lost', will: null, endedAtMs: device.nowMs } as const;
      device.run({ kind: 'direct_ended', end });
    },
  },
  'its announcements alone': {
    settings: { reportsConnections: false, asksAtLogin: false },
    begin: (device: CoreDevice) => void device.receive(status, { status: 'online' }),
    end: (device: CoreDevice) => void device.receive(status, { status: 'offline' }),
  },
};
type Way = (typeof ways)[keyof typeof ways];
const [byBroker] = Object.values(ways) as [Way];

function loginOf({ productKey }: CoreDevice) {
  return { productKey, isClientIdRight: true, matchedDigest: 'password', address: null };
}

/** Online with the former version, and offered the next one. */
function offered(way = byBroker, more: object = {}): CoreDevice {
  const device = new CoreDevice(start, way.settings);
  way.begin(device);
  inform(device, former);
  device.wait(minuteMs);
  give(device, more);
  return device;
}

/** It has the image whole. */
function downloaded(way = byBroker): CoreDevice {
  const device = offered(way);
  say(device, 'accepted');
  fetch(device, 500);
  device.wait(minuteMs);
  fetch(device);
  device.wait(minuteMs);
  return device;
}

/** Its session ends, and another begins in which it informs of the version. */
function restart(device: CoreDevice, version: string | null, way = byBroker): void {
  way.end(device);
  device.wait(20 * secondMs);
  way.begin(device);
  device.wait(secondMs);
  if (version !== null) inform(device, version);
}

describe('an update', () => {
  type Step = (device: CoreDevice) => unknown;
  const wait =
    (ms: number): Step =>
    (device) => {
      device.wait(ms);
    };
  const comeBackWith =
    (version: string | null): Step =>
    (device) => {
      restart(device, version);
    };
  const leave: Step = (device) => {
    device.disconnect();
  };
  const download: Step = (device) => fetch(device);
  const sayRestarting: Step = (device) => say(device, 'restarting');

  it.each<[string, ...Step[]]>([
    ['failed not_reached', leave, wait(30 * dayMs)],
    ['failed no_answer', wait(hourMs)],
    ['failed too_slow', (device) => say(device, 'accepted'), wait(hourMs)],
    ['failed too_slow', (device) => fetch(device, 500), wait(dayMs)],
    [
      'failed too_slow',
      ...Array.from({ length: 62 }, () => [(device: CoreDevice) => fetch(device, 500), wait(dayMs / 2)]).flat(),
    ],
    ['failed not_installed', download, stay(24)],
    ['failed not_back', download, sayRestarting, leave, wait(hourMs)],
    ['unknown no_version', download, comeBackWith(null), wait(10 * minuteMs)],
    ['unknown no_version', download, sayRestarting, wait(10 * minuteMs)],
    ['unknown other_version', download, wait(minuteMs), comeBackWith('1.1.0')],
    ['unknown not_downloaded', wait(minuteMs), comeBackWith(next)],
    ['failed device_error', (device) => say(device, 'failed', { error: 'flash_write' })],
    ['superseded stopped', (device) => give(device, {}, true)],
  ])('ends as %s', (end, ...steps) => {
    const device = offered();
    for (const step of steps) step(device);
    expect(outcomeOf(device)).toBe(end);
    for (const step of ['accepted', 'downloaded', 'failed']) say(device, step);
    expect(fetch(device)).toMatchObject({ ok: false, refusal: { kind: 'update_ended' } });
    expect(outcomeOf(device)).toBe(end);
  });

  /** Online, and heard each hour. */
  function stay(hours: number): Step {
    return (device) => {
      for (let hour = 0; hour < hours; hour++) {
        device.wait(hourMs);
        device.report(hour % 2 === 0 ? 'up' : 'down');
      }
    };
  }

  it('is told at each begin of a session, and each 10 minutes while the device does not answer', () => {
    const device = offered();
    expect(tellings(device)).toBe(1);
    device.wait(25 * minuteMs);
    expect(tellings(device)).toBe(3);
    device.disconnect();
    device.wait(dayMs);
    expect(tellings(device)).toBe(3);
    restart(device, former);
    expect(tellings(device)).toBe(5);
    say(device, 'accepted');
    device.wait(30 * minuteMs);
    expect(tellings(device)).toBe(5);
    restart(device, former);
    expect(tellings(device)).toBe(6);
  });

  it('that its owner put off is offered again after 30 days, and nothing of it is sent before', () => {
    const device = offered();
    expect(postpone(device)).toMatchObject({ ok: true });
    expect(fetch(device)).toMatchObject({ ok: false });
    restart(device, former);
    stay(30 * 24 - 1)(device);
    expect([outcomeOf(device), tellings(device)]).toEqual(['postponed', 1]);
    stay(1)(device);
    expect([outcomeOf(device), tellings(device)]).toEqual(['offered', 2]);
    say(device, 'accepted');
    expect(postpone(device)).toMatchObject({ ok: false, refusal: { kind: 'not_found' } });
    expect(postpone(offered(byBroker, { isSecurity: true }))).toMatchObject({ refusal: { kind: 'update_needed' } });
  });

  it('gives way to that of a newer campaign, and never to that of an older one', () => {
    const device = offered(byBroker, { orderedAtMs: 5 });
    expect(give(device, { campaignId: 'c0' })).toMatchObject({
      value: { state: 'superseded', reason: 'newer_campaign' },
    });
    expect(give(device, { campaignId: 'c2', orderedAtMs: 6, version: '1.3.0' })).toMatchObject({
      value: { state: 'offered', isOnline: true },
    });
    expect(give(device, { orderedAtMs: 5 })).toMatchObject({ value: { reason: 'newer_campaign' } });
    expect(fetch(device)).toMatchObject({ refusal: { kind: 'update_ended' } });
    expect(fetch(device, 9, 'c2')).toMatchObject({ ok: true });
  });

  it('goes on to its end if its campaign is stopped behind the download', () => {
    const device = downloaded();
    expect(give(device, {}, true)).toMatchObject({ value: { state: 'downloaded' } });
    restart(device, next);
    expect(outcomeOf(device)).toBe('proved');
  });

  it('holds up commands while the device restarts, and no longer', () => {
    const device = downloaded();
    expect(press(device)).toMatchObject({ ok: true });
    say(device, 'restarting');
    expect(press(device)).toMatchObject({ ok: false, refusal: { kind: 'device_restarting' } });
    restart(device, next);
    expect(press(device)).toMatchObject({ ok: true });
    const lost = downloaded();
    lost.disconnect();
    expect(press(lost)).toMatchObject({ refusal: { kind: 'device_restarting' } });
    lost.wait(hourMs);
    expect([outcomeOf(lost), press(lost).ok]).toEqual(['failed not_back', true]);
  });

  it('is not proved by what the device claims: without a download it cannot restart', () => {
    const device = offered();
    say(device, 'restarting');
    expect([outcomeOf(device), press(device).ok]).toEqual(['offered', true]);
    const early = downloaded();
    inform(early, next);
    early.wait(minuteMs);
    expect(outcomeOf(early)).toBe('downloaded');
    say(early, 'restarting');
    inform(early, next);
    expect(outcomeOf(early)).toBe('restarting');
  });

  it('goes on if only the connection was lost, also of a device that had told no version before', () => {
    const device = new CoreDevice(start);
    device.connect();
    give(device);
    device.wait(minuteMs);
    inform(device, former);
    fetch(device);
    restart(device, former);
    expect(outcomeOf(device)).toBe('downloaded');
    restart(device, next);
    expect(outcomeOf(device)).toBe('proved');
  });

  it('costs a dozen rows while 16 MiB come in parts of 600 bytes', () => {
    const size = 16 * 1024 * 1024;
    const device = offered(byBroker, { size });
    let [rows, writes] = [device.savedRows(), 0];
    for (let offset = 0; offset < size; offset += 600) {
      device.nowMs += secondMs;
      get(device, offset, 600);
      const saved = device.savedRows();
      writes += Object.keys(saved).filter((name) => saved[name] !== rows[name]).length;
      rows = saved;
    }
    expect(outcomeOf(device)).toBe('downloaded');
    expect(writes).toBeLessThanOrEqual(13);
  });
});

describe.each(Object.entries(ways))('a device whose sessions are known by %s', (_, way) => {
  it('has proved the new version when it tells it in a session after the download', () => {
    const device = downloaded(way);
    restart(device, next, way);
    expect(outcomeOf(device)).toBe('proved');
  });

  it('is judged by what the device tells in its last session, also if two begin within two seconds', () => {
    const device = downloaded(way);
    restart(device, former, way);
    device.wait(500);
    say(device, 'restarting');
    way.end(device);
    device.wait(500);
    way.begin(device);
    expect(outcomeOf(device)).toBe('restarting');
    inform(device, next);
    expect(outcomeOf(device)).toBe('proved');
  });

  it('has proved the new version also if it told the former one between the end of the download and its restart', () => {
    const device = downloaded(way);
    inform(device, former);
    way.end(device);
    device.wait(500);
    way.begin(device);
    expect(outcomeOf(device)).toBe('downloaded');
    say(device, 'restarting');
    inform(device, next);
    expect(outcomeOf(device)).toBe('proved');
  });

  it('has rolled back if it said that it restarts and comes back with the old version; else the second time', () => {
    const [device, silent] = [downloaded(way), downloaded(way)];
    say(device, 'restarting');
    restart(device, former, way);
    expect(outcomeOf(device)).toBe('rolled_back');
    restart(silent, former, way);
    expect(outcomeOf(silent)).toBe('downloaded');
    silent.wait(minuteMs);
    restart(silent, former, way);
    expect(outcomeOf(silent)).toBe('rolled_back');
  });

  it('that was proved has rolled back when the old version is back', () => {
    const device = downloaded(way);
    restart(device, next, way);
    expect(outcomeOf(device)).toBe('proved');
    device.wait(minuteMs);
    restart(device, former, way);
    expect(outcomeOf(device)).toBe('rolled_back');
    expect(device.effects.findLast(({ kind }) => kind === 'tell_campaign')).toMatchObject({
      report: { state: 'rolled_back' },
    });
  });

  it('knows the old version of a device that informs after its download, in the same session', () => {
    const device = new CoreDevice(start, way.settings);
    way.begin(device);
    give(device);
    fetch(device);
    inform(device, former);
    say(device, 'restarting');
    restart(device, former, way);
    expect(outcomeOf(device)).toBe('rolled_back');
  });
});

it('a device that announces itself and informs has proved its version, also if the batch before came more slowly', () => {
  const way = ways['its announcements alone'];
  const device = downloaded(way);
  say(device, 'restarting');
  way.end(device);
  device.wait(20 * secondMs);
  way.begin(device);
  device.receive(otaInform, { version: next }, { receivedAtMs: device.nowMs - 3 * secondMs });
  expect(outcomeOf(device)).toBe('proved');
});

const path = ['newer offer', 'accepted', 'fetch all', 'restarting', 'end', 'begin', 'inform next'] as const;
const others = [
  ...(['sleep', 'postpone', 'stop', 'older offer', 'inform former', 'inform other'] as const),
  ...(['fetch part', 'get part', 'get end', 'downloading', 'downloaded', 'failed'] as const),
];
type Action = (typeof path | typeof others)[number];
const phrases = fc.oneof(
  fc.subarray<Action>([...path], { minLength: 1 }),
  fc.constantFrom<Action>(...path, ...others).map((action) => [action]),
);
const traces = fc.record({
  // No socket answers here to the checks of a direct connection.
  way: fc.constantFrom(...Object.values(ways).filter((way) => way !== ways['direct connections'])),
  phrases: fc.array(phrases, { maxLength: 15, size: 'max' }),
  waitsMs: fc.array(fc.constantFrom(5 * secondMs, 5 * secondMs, minuteMs, 40 * minuteMs), { minLength: 20 }),
});

it('nothing is proved but by the new version, told in a session after a download; each update ends, and stays so unless the old one is back', () => {
  let proofs = 0;
  fc.assert(
    fc.property(traces, ({ way, phrases: said, waitsMs }) => {
      const device = offered(way);
      let orderedAtMs = 1;
      const ends = new Map<string, string>();
      /** Of the present campaign, in this order; 0: not yet. */
      let seen = { download: 0, session: 0, version: 0 };
      const idOf = () => updateOf(device)?.campaignId ?? '';
      const doIt = (does: Action) => {
        const campaignId = `c${orderedAtMs}`;
        if (does === 'begin' || does === 'end') way[does](device);
        else if (does === 'sleep') device.sleep();
        else if (does === 'postpone') postpone(device);
        else if (does === 'stop') give(device, { campaignId, orderedAtMs }, true);
        else if (does === 'older offer') give(device, { campaignId: 'c0', orderedAtMs: 0 });
        else if (does === 'newer offer') {
          inform(device, former);
          give(device, { campaignId: `c${++orderedAtMs}`, orderedAtMs });
        } else if (does.startsWith('inform'))
          inform(device, { former, next, other: '1.1.0' }[does.slice('inform '.length)] ?? '');
        else if (does.startsWith('fetch')) fetch(device, does === 'fetch all' ? 1_000 : 500, idOf());
        else if (does.startsWith('get')) get(device, does === 'get end' ? 900 : 0, 100);
        else say(device, does);
      };
      for (const [index, does] of said.flat().entries()) {
        const before = idOf();
        doIt(does);
        if (idOf() !== before) seen = { download: 0, session: 0, version: 0 };
        const isPart = does === 'fetch part' || does === 'get part';
        if (isPart || does === 'fetch all' || does === 'get end' || (does === 'downloaded' && seen.download === 0))
          seen = { download: isPart ? 0 : index + 1, session: 0, version: 0 };
        if (does === 'begin' && seen.download > 0) seen.session = index + 1;
        if (does === 'inform next' && seen.session > 0) seen.version = index + 1;
        for (const _ of ['at once', 'later']) {
          const { campaignId = '', state } = updateOf(device) ?? {};
          if (state === 'proved' && !ends.has(campaignId)) {
            proofs++;
            expect(seen.version).toBeGreaterThan(0);
          }
          const isEnded = ['proved', 'rolled_back', 'failed', 'unknown', 'superseded'].includes(state ?? '');
          const isBack = state === 'rolled_back' && (does === 'newer offer' || does === 'inform former');
          if (isBack && ends.get(campaignId)?.includes('"state":"proved"')) ends.delete(campaignId);
          if (isEnded || ends.has(campaignId)) {
            const now = JSON.stringify(updateOf(device));
            expect(now).toBe(ends.get(campaignId) ?? now);
            ends.set(campaignId, now);
          }
          device.wait(waitsMs[index % waitsMs.length] ?? 0);
        }
      }
      device.wait(65 * dayMs);
      expect(outcomeOf(device)).toMatch(/^(proved|rolled_back|failed|unknown|superseded)/);
    }),
    { seed: fuzzSeed, numRuns: 100 },
  );
  expect(proofs).toBeGreaterThan(10);
});
