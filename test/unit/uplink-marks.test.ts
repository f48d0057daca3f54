// Which messages of a bridge were taken before.
import { describe, expect, it } from 'vitest';
import { isRecent, isTaken, noMarks, take } from '../../src/domain/uplink-marks.ts';

describe('uplink marks', () => {
  it('know every number of a spool up to the highest that was taken', () => {
    const marks = take(noMarks, 'spool-a', 7, 'x');
    expect(isTaken(marks, 'spool-a', 7)).toBe(true);
    expect(isTaken(marks, 'spool-a', 1)).toBe(true);
    expect(isTaken(marks, 'spool-a', 8)).toBe(false);
  });

  it('keep spools apart, because each numbers from one', () => {
    const marks = take(noMarks, 'spool-a', 7, 'x');
    expect(isTaken(marks, 'spool-b', 1)).toBe(false);
  });

  it('forget the spool that was used least recently when there are more than eight', () => {
    let marks = take(noMarks, 'spool-0', 5, 'x');
    for (let number = 1; number <= 7; number++) marks = take(marks, `spool-${number}`, 5, 'x');
    marks = take(marks, 'spool-0', 6, 'x');
    marks = take(marks, 'spool-8', 5, 'x');
    expect(isTaken(marks, 'spool-0', 6)).toBe(true);
    expect(isTaken(marks, 'spool-1', 5)).toBe(false);
  });

  it('remember the content of the last messages for those the broker delivers again', () => {
    let marks = take(noMarks, 'spool', 1, 'first');
    for (let seq = 2; seq <= 64; seq++) marks = take(marks, 'spool', seq, `digest ${seq}`);
    expect(isRecent(marks, 'first')).toBe(true);
    marks = take(marks, 'spool', 65, 'digest 65');
    expect(isRecent(marks, 'first')).toBe(false);
    expect(isRecent(marks, 'digest 65')).toBe(true);
  });
});
