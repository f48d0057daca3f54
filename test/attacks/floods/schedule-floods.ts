// Floods of schedules by the owner of a device: made, replaced, looked ahead of, run and removed as fast as it goes.
import type { Attack, Effort, Result, Target } from '../rig/attack.ts';
import { send } from '../rig/traffic.ts';
import { flood, oneAddress } from './http-floods.ts';

const mostOfDevice = 40;
const secondMs = 1_000;
const up = { action: 'toggle', position: 'up' };
const dates = Array.from({ length: 51 }, (_, day) => new Date(Date.UTC(2027, 0, 1 + day)).toISOString().slice(0, 10));
const sunAt = (latitude: number) => ({ sun: 'sunset', offsetMinutes: -720, place: { latitude, longitude: 180 } });

/** What an owner may ask for, the dear before the cheap. */
const valid = (): object[] => [
  { command: up, at: sunAt(90), zone: 'Pacific/Kiritimati', days: ['sun'], except: dates.slice(1) },
  { command: up, at: sunAt(-66.6), zone: 'Antarctica/Troll', jitterSeconds: 3600, graceSeconds: 3600 },
  { command: up, at: '02:30', zone: 'Europe/Berlin', from: '9999-01-01' },
  { command: { action: 'pulse' }, at: new Date(Date.now() + secondMs).toISOString() },
  { command: up, at: new Date(Date.now() + 2 * secondMs).toISOString(), jitterSeconds: 1, name: 'x'.repeat(100) },
];

/** What is none, in one member. */
const odd: object[] = [
  ...['Mars/Olympus', '+01:00', 'Etc/GMT+99', '../etc', 'x'.repeat(65), 7].map((zone) => ({ zone })),
  ...['24:00', '7:30', '', '2027-02-30T12:00', '+275760-09-13T00:00:00Z', '2027-01-01T00:00:00Z', 7].map((at) => ({
    at,
  })),
  ...[90.1, -1e308, null].map((latitude) => ({ at: { ...sunAt(0), place: { latitude, longitude: 0 } } })),
  ...[[], ['someday'], Array(8).fill('mon')].map((days) => ({ days })),
  ...[dates, ['2027-02-30'], ['now']].map((except) => ({ except })),
  ...[{ from: '2027-13-01' }, { until: '0000-00-00' }, { from: '2027-02-01', until: '2027-01-01' }],
  ...[{ jitterSeconds: 3601 }, { graceSeconds: 4 }, { graceSeconds: 1e99 }, { name: 'a\nb' }, { every: 'second' }],
  ...[{ command: undefined }, { command: { action: 'toggle', position: 'sideways' } }, { command: [up] }],
];
const leases = [5, 4, 86_401, '5'].map((seconds) => ({ seconds, then: { ...up, position: 'down' } }));
const counts = ['50', '51', '0', '-1', '1e9', '99999999999999999999', 'x'];

const headersOf = ({ own }: Target) => ({ Authorization: `Bearer ${own.token}` });
const pathOf = ({ own }: Target) => `/api/v1/devices/${own.devices[4]?.deviceId ?? ''}`;

/** The schedules that are there, as far as answers said. */
const scheduleIds: string[] = [];

const schedules = flood(
  {
    name: 'schedules',
    title: 'an owner makes, replaces, looks ahead of, runs and removes schedules, half of them odd, and begins leases',
    holds: 'refused beyond the limits of a device; an odd body never reaches it',
  },
  (target, number) => {
    const all = valid();
    const plain = all[number % all.length]!;
    const body = JSON.stringify(number % 2 === 0 ? plain : { ...plain, ...odd[number % odd.length] });
    const id = scheduleIds[number % Math.max(1, scheduleIds.length)] ?? 'none';
    const count = counts[number % counts.length]!;
    const shots = [
      { method: 'POST', path: '/schedules', body },
      { method: 'POST', path: `/schedules/next?count=${number % 2 === 0 ? '50' : count}`, body },
      { method: 'GET', path: `/schedules/next?count=${count}` },
      { method: 'PUT', path: `/schedules/${id}`, body },
      { method: 'POST', path: `/schedules/${id}/run` },
      { method: 'POST', path: `/schedules/${id}/${number % 4 === 0 ? 'pause' : 'resume'}` },
      { method: 'POST', path: '/control', body: JSON.stringify({ ...up, lease: leases[number % leases.length] }) },
      { method: 'GET', path: `/runs?size=100&page=${count}` },
      { method: 'DELETE', path: `/schedules/${number % 3 === 0 ? (scheduleIds.shift() ?? 'none') : 'none'}` },
    ];
    const { path, ...shot } = shots[Math.floor(number / 2) % shots.length]!;
    return { ...shot, path: `${pathOf(target)}${path}`, headers: headersOf(target), address: oneAddress };
  },
  (status) => [200, 400, 403, 404, 429].includes(status),
  (text) => {
    const [, id] = /"scheduleId":"(\w+)","name"/.exec(text) ?? [];
    if (id !== undefined && !scheduleIds.includes(id)) scheduleIds.push(id);
    if (scheduleIds.length > mostOfDevice) scheduleIds.shift();
  },
);

export const scheduleFloods: Attack[] = [
  {
    ...schedules,
    run: async (target: Target, effort: Effort): Promise<Result> => {
      const result = await schedules.run(target, effort);
      const request = { headers: headersOf(target), address: oneAddress };
      const { text } = await send(`${target.url}${pathOf(target)}/schedules?size=100`, request);
      const { data } = JSON.parse(text) as { data: { total?: number } | null };
      const total = data?.total ?? 0;
      return total <= mostOfDevice ? result : { ...result, problems: [...result.problems, `${total} schedules`] };
    },
  },
];
