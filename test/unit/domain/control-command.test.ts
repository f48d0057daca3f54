// What a control body becomes: the device's parameters exactly, or the documented error.
import { describe, expect, it } from 'vitest';
import { encodeControl, parseControl } from '../../../src/domain/control-command.ts';
import { topicOf } from '../../../src/domain/topics.ts';
import { topicActions } from '../../../src/protocol/mqtt.ts';

const { propertySet } = topicActions;

const accepted: object[] = [
  { action: 'toggle' },
  { action: 'toggle', position: 'up' },
  { action: 'toggle', position: 'middle' },
  { action: 'toggle', position: 'down' },
  { action: 'pulse' },
  { action: 'pulse', duration: 1 },
  { action: 'pulse', duration: 3_600_000 },
  { action: 'trigger' },
  { switch: true },
  { switch: false },
  { angle: 0 },
  { angle: 180 },
  { switch: true, angle: 90 },
];

const invalid: [string, unknown][] = [
  ['an unknown action', { action: 'open' }],
  ['an action that is null', { action: null }],
  ['an unknown position', { action: 'toggle', position: 'left' }],
  ['a position that is null', { action: 'toggle', position: null }],
  ['a position without toggle', { position: 'up' }],
  ['a duration without pulse', { duration: 5 }],
  ['a position with pulse', { action: 'pulse', position: 'up' }],
  ['a duration with toggle', { action: 'toggle', duration: 5 }],
  ['a trigger with another field', { action: 'trigger', duration: 5 }],
  ['a duration of nothing', { action: 'pulse', duration: 0 }],
  ['a duration above an hour', { action: 'pulse', duration: 3_600_001 }],
  ['a broken duration', { action: 'pulse', duration: 1.5 }],
  ['a duration in quotes', { action: 'pulse', duration: '500' }],
  ['an angle below 0', { angle: -1 }],
  ['an angle above 180', { angle: 181 }],
  ['a broken angle', { angle: 90.5 }],
  ['a switch that is no boolean', { switch: 1 }],
  ['both forms at once', { action: 'toggle', position: 'up', angle: 90 }],
];

describe('a control body', () => {
  it.each(accepted.map((body) => [JSON.stringify(body), body]))('%s goes to the device as it is', (_, body) => {
    expect(parseControl(body)).toEqual({ ok: true, value: body });
  });

  it('loses what is no control parameter, and nothing else', () => {
    const outcome = parseControl({ requestId: 5, action: 'pulse', note: null, duration: 250 });
    expect(outcome).toEqual({ ok: true, value: { action: 'pulse', duration: 250 } });
  });

  it.each(invalid)('with %s is invalid_control_params', (_, body) => {
    const outcome = parseControl(body);
    expect(outcome).toMatchObject({ ok: false, refusal: { kind: 'invalid_control_params' } });
    if (outcome.ok || outcome.refusal.kind !== 'invalid_control_params') return;
    const { member, problem } = outcome.refusal;
    expect(['action', 'position', 'duration', 'switch', 'angle']).toContain(member);
    expect(Object.keys(body as object).includes(member) || member === 'action').toBe(true);
    expect(problem).toMatch(/^[A-Za-z]/);
  });

  it.each([[{}], [{ power: true }], [[]], ['toggle'], [5], [null], [undefined]])(
    'without a control parameter (%j) is no_control_params',
    (body) => {
      expect(parseControl(body)).toEqual({ ok: false, refusal: { kind: 'no_control_params' } });
    },
  );
});

describe('a command message', () => {
  it('has the form of contract 6 and no member the caller did not send', () => {
    const text = encodeControl({ action: 'toggle' }, '0123456789abcdef', 1_763_000_000_000);
    expect(text).toBe(
      '{"method":"thing.service.property.set","id":"0123456789abcdef","params":{"action":"toggle"},"time":1763000000000}',
    );
  });

  it('fits a packet of 256 bytes for the longest product key', () => {
    const device = { productKey: 'k'.repeat(64), deviceId: 'dev_00000000' };
    const topic = topicOf(device, propertySet);
    for (const params of [...accepted, { action: 'pulse', duration: 3_600_000 }]) {
      const payload = encodeControl(params as Record<string, string>, '0123456789abcdef', 9_999_999_999_999);
      // MQTT 3.1.1: two length bytes of the topic, two of the packet identifier, the payload, a fixed header of three.
      const packet = 3 + 2 + topic.length + 2 + payload.length;
      expect(packet).toBeLessThanOrEqual(256);
    }
  });
});
