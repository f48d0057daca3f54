// Floods of groups, scenes, bulk runs and check-ins by somebody with an account: of own devices, of the victim's and of none.
import { randomBytes } from 'node:crypto';
import type { Attack, Effort, Target } from '../rig/attack.ts';
import { addressOf } from '../rig/traffic.ts';
import { flood, oneAddress } from './http-floods.ts';
import { sceneOf } from './lesser-rights.ts';

const mostOfUser = 100;
/** BULK_LIMIT of wrangler.toml is 10 a minute, and a minute may end meanwhile. */
const mostRuns = 20;
/** Ten a minute, and one more for each six seconds. */
const mostCheckIns = 12;
const up = { action: 'toggle', position: 'up' };
const hex = (length: number): string => randomBytes(length).toString('hex').slice(0, length);

const callerOf = ({ own }: Target) => ({ address: oneAddress, headers: { Authorization: `Bearer ${own.token}` } });

/** Own devices, the victim's, and ids that no device has. */
const idsOf = ({ own, victim }: Target, count: number): string[] => {
  const known = [...own.devices.map(({ deviceId }) => deviceId), victim.deviceId];
  return [...known, ...Array.from({ length: count - known.length }, () => `dev_${hex(8)}`)];
};

/** Made once, before the first flood. The victim's device is in both. */
async function prepare(target: Target) {
  const { ask } = sceneOf(target);
  const by = callerOf(target);
  const deviceIds = idsOf(target, 20);
  const witness = { expect: 'pressed', by: { checkIn: true }, withinSeconds: 30, then: 'nothing' };
  const { groupId } = await ask(by, 'POST /groups', { name: 'mine', deviceIds });
  const { bulkId } = await ask(by, 'POST /commands', { devices: deviceIds, command: { action: 'pulse' } });
  const { checkInUrl } = await ask(by, `PUT /devices/${target.own.devices[5]!.deviceId}/witness`, witness);
  return { groupId, bulkId, checkInPath: new URL(checkInUrl).pathname };
}
let prepared: ReturnType<typeof prepare> | undefined;
let checkInPath = '';

const ids: Record<string, string[]> = { group: [], scene: [], bulk: [] };
let checkIns = 0;
function noteAnswer(text: string): void {
  const [, kind = '', id = ''] = /"(group|scene|bulk)Id":"(\w+)"/.exec(text) ?? [];
  if (text === '') checkIns += 1;
  if (ids[kind]?.includes(id) === false) ids[kind].push(id);
}

const isGuess = (path: string): boolean => path.startsWith('/w/') && path !== checkInPath;

type Shots = (target: Target, number: number) => [operation: string, body?: object][];

function floodOf(name: string, title: string, holds: string, shotsOf: Shots): Attack {
  const shotOf = (target: Target, number: number) => {
    const shots = shotsOf(target, number);
    const [operation, body] = shots[number % shots.length]!;
    const [method = '', path = ''] = operation.split(' ');
    const caller = isGuess(path) ? { address: addressOf(number) } : callerOf(target);
    const sent = { method, path: path.startsWith('/w/') ? path : `/api/v1${path}`, body: body && JSON.stringify(body) };
    return { ...caller, ...sent };
  };
  const isAllowed = (status: number, path: string) =>
    [404, 429, ...(isGuess(path) ? [] : [200, 204, 400, 403])].includes(status);
  const flooding = flood({ name, title, holds }, shotOf, isAllowed, noteAnswer);
  const run = async (target: Target, effort: Effort) => {
    const { groupId, bulkId, ...link } = await (prepared ??= prepare(target));
    checkInPath = link.checkInPath;
    [checkIns, ids['bulk']] = [0, []];
    const { problems, ...result } = await flooding.run(target, effort);
    const { tally, judge, ask } = sceneOf(target);
    const told = async (path: string, hidden: object) => {
      const text = JSON.stringify(await ask(callerOf(target), `GET ${path}`));
      const refused = JSON.stringify({ deviceId: target.victim.deviceId, ...hidden });
      judge(path, text.includes(refused) ? 'hidden' : text.slice(0, 300), 'hidden');
    };
    await told(`/groups/${groupId}`, { name: null, online: false, position: null, refused: 'forbidden' });
    await told(`/bulk/${bulkId}?size=20&wait=10`, { outcome: 'refused', reason: 'forbidden', command: null });
    const few = (what: string, count: number, most: number) => judge(what, count <= most ? 'few' : `${count}`, 'few');
    for (const path of ['/groups', '/scenes'])
      few(path, (await ask(callerOf(target), `GET ${path}`)).total, mostOfUser);
    few('runs', ids['bulk'].length, mostRuns);
    few('check-ins', checkIns, mostCheckIns);
    return { ...result, problems: [...problems, ...tally.result().problems] };
  };
  return { name, title, holds, run };
}

const oneOf = (kind: string, number: number): string => ids[kind]![number % Math.max(1, ids[kind]!.length)] ?? 'none';

export const groupFloods: Attack[] = [
  floodOf(
    'groups',
    'a user makes, reads, changes and deletes groups of 500 devices, and scenes',
    'refused beyond the limits of a user; nothing is told of foreign devices',
    (target, number) => {
      const kind = number % 2 === 0 ? 'group' : 'scene';
      const items = idsOf(target, 50).map((deviceId) => ({ deviceId, command: up }));
      const body = { name: hex(8), ...(kind === 'group' ? { deviceIds: idsOf(target, 500) } : { items }) };
      const [make, one] = [`POST /${kind}s`, `/${kind}s/${oneOf(kind, number)}`];
      return [[make, body], [make, body], [`PATCH ${one}`, body], [`GET ${one}`], [`DELETE ${one}`]];
    },
  ),
  floodOf(
    'bulk-runs',
    'a user starts, reads and pauses runs of 500 devices, and of products',
    'refused beyond the limit; foreign devices refuse each command',
    (target, number) => {
      const command = { action: 'pulse' };
      const { productKey } = number % 2 === 0 ? target.own : target.victim;
      const one = `/bulk/${oneOf('bulk', number)}`;
      return [
        ['POST /commands', { devices: idsOf(target, 500), command, maxInFlight: 500 }],
        [`POST /products/${productKey}/commands`, { command }],
        [`GET ${one}?size=100&page=${1 + (number % 7)}`],
        [`PATCH ${one}`, { paused: number % 2 === 0 }],
      ];
    },
  ),
  floodOf(
    'check-ins',
    'one check-in link as fast as it goes, and guesses at links of the victim from many addresses',
    'ten a minute of the link are taken, and no guess',
    ({ victim }) => {
      const guess = `POST /w/${victim.deviceId.slice('dev_'.length)}`;
      return [[`POST ${checkInPath}`], [`${guess}${checkInPath.slice('/w/'.length + 8)}`], [`${guess}${hex(42)}`]];
    },
  ),
];
