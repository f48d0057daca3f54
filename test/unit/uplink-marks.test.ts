// Which messages of a bridge were taken before.
import { describe, expect, it } from 'vitest';
import {
  isOvertaken,
  isRecent,
  isTaken,
  noMarks,
  noteRedelivered,
  take,
  takeRepeated,
} from '../../src/domain/uplink-marks.ts';

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

  it('know the first delivery of what another bridge has brought, by content and by when it was received', () => {
    const marks = take(noteRedelivered(noMarks, 'spool-b', 'x', 2000), 'spool-b', 2, 'y');
    expect(isOvertaken(marks, 'spool-a', 'x', 1000)).toBe(true);
    expect(isOvertaken(marks, 'spool-a', 'y', 1000), 'not delivered again').toBe(false);
    expect(isOvertaken(marks, 'spool-b', 'x', 1000), 'the same bridge knows its own').toBe(false);
    expect(isOvertaken(marks, 'spool-a', 'x', 2500), 'its request was long on the way').toBe(true);
    expect(isOvertaken(marks, 'spool-a', 'x', 15_000), 'said anew').toBe(false);
  });

  it('know all of the last 64 while these are read again one by one', () => {
    let marks = noMarks;
    for (let seq = 1; seq <= 80; seq++) marks = take(marks, 'first', seq, `digest ${seq}`);
    for (let seq = 17; seq <= 80; seq++) {
      expect(isRecent(marks, `digest ${seq}`), `digest ${seq}`).toBe(true);
      marks = takeRepeated(marks, 'second', seq);
      expect(isTaken(marks, 'second', seq)).toBe(true);
    }
  });

  it('forget first deliveries that did not come among the last 64 redelivered', () => {
    let marks = noteRedelivered(noMarks, 'spool-b', 'first', 2000);
    for (let number = 2; number <= 65; number++) marks = noteRedelivered(marks, 'spool-b', `digest ${number}`, 2000);
    expect(isOvertaken(marks, 'spool-a', 'first', 1000)).toBe(false);
    expect(isOvertaken(marks, 'spool-a', 'digest 65', 1000)).toBe(true);
  });
});
