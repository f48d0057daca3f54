// Places of the gateway: in all, by address before and after the login, and those that are kept for addresses with few.
import { expect, it } from 'vitest';
import { createAdmission, type AdmissionLimits, type Place } from '../../../mqtt-gateway/src/admission.ts';

const few = 10;

function admissionOf(limits: Partial<AdmissionLimits>) {
  return createAdmission({
    ...{ connections: 100, connectionsPerAddress: 100, unauthenticated: 100, unauthenticatedPerAddress: 100 },
    ...limits,
  });
}

function enter(admission: ReturnType<typeof createAdmission>, address: string): Place | string {
  const place = admission.enter(address, () => undefined);
  if (typeof place !== 'string') place.authenticate();
  return place;
}

const enterTimes = (admission: ReturnType<typeof createAdmission>, address: string, times: number): Place[] =>
  Array.from({ length: times }, () => enter(admission, address)).filter((place) => typeof place !== 'string');

it('lets no address have more connections than its share, though the Worker has answered them', () => {
  const admission = admissionOf({ connectionsPerAddress: 3 });
  const [first] = enterTimes(admission, '2001:db8::1', 3);
  expect(enter(admission, '2001:db8::2'), 'of the same /64').toBe('connections_per_address');
  expect(enter(admission, '2001:db8:0:1::1')).toBeTypeOf('object');
  first!.leave();
  expect(enter(admission, '2001:db8::1')).toBeTypeOf('object');
  expect(enter(admission, '2001:db8::1')).toBe('connections_per_address');
});

it('lets addresses with many connections not fill the gateway: a tenth is kept for addresses with few', () => {
  const admission = admissionOf({});
  const taken = enterTimes(admission, '192.0.2.1', 60).length + enterTimes(admission, '192.0.2.2', 60).length;
  expect(taken).toBe(90);
  expect(enter(admission, '192.0.2.1')).toBe('connections');
  expect(enterTimes(admission, '192.0.2.3', few + 1)).toHaveLength(few);
  expect(admission.openCount()).toBe(100);
  expect(enter(admission, '192.0.2.4')).toBe('connections');
});
