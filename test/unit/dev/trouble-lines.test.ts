// What `npm start` prints of a device that does not work, and what a crowd of them may not do to the terminal.
import { stripVTControlCharacters } from 'node:util';
import { beforeEach, expect, test, vi } from 'vitest';
import { createTroubleFilter } from '../../../dev/terminal.ts';

let shown: string[] = [];
const show = createTroubleFilter('worker', (who, text) => {
  shown.push(`${who} ${stripVTControlCharacters(text)}`);
});

beforeEach(() => {
  shown = [];
  vi.useFakeTimers();
  return () => vi.useRealTimers();
});

const refused = (deviceId: string) =>
  JSON.stringify({
    ...{ level: 'info', event: 'login_refused', username: `pk&${deviceId}` },
    ...{ reason: 'invalid_password', peerhost: '192.168.1.7' },
  });

test('a refused login and a message that was not understood are one line each', () => {
  show(refused('dev_1'));
  const refusal = { deviceId: 'dev_1', kind: 'credential_refused', problem: 'wrong', credential: 'messaging_password' };
  show(JSON.stringify({ level: 'info', event: 'edge login refused', ...refusal }));
  const fields = { deviceId: 'dev_1', topic: 'status', reason: 'not_json', dropped: [], text: 'on\nline' };
  show(JSON.stringify({ level: 'info', event: 'device message not understood', ...fields }));
  show(JSON.stringify({ level: 'info', event: 'request' }));
  show('text');
  show('{"level":"warn","event":"cut o');
  expect(shown).toEqual([
    'device dev_1: login from 192.168.1.7 refused, invalid password',
    'device dev_1: login over WebSocket refused, wrong messaging password',
    'device dev_1: status not understood, not json: on line',
  ]);
});

test('of a crowd a few are shown, then how many more there were; what else goes wrong is seen beside it', () => {
  vi.advanceTimersByTime(5_000);
  for (let n = 0; n < 500; n += 1) show(refused(`dev_${n}`));
  expect(shown).toHaveLength(5);
  show(JSON.stringify({ level: 'error', message: 'the spool is full', bytes: 7 }));
  expect(shown.at(-1)).toBe('worker the spool is full: bytes=7');
  vi.advanceTimersByTime(5_000);
  show(refused('dev_late'));
  expect(shown.slice(6)).toEqual([
    'device 495 more lines are in logs/worker.log',
    expect.stringContaining('dev_late') as string,
  ]);
});
