// The days of the console's tab History, compared with Temporal: where clocks change, days are shorter or longer.
import { Temporal } from 'temporal-polyfill';
import { expect, it } from 'vitest';
import { addDays, startOf } from '../../../console/src/history/days.ts';

it.each(['UTC', 'Europe/Berlin', 'America/New_York', 'America/Havana', 'Australia/Lord_Howe', 'Pacific/Kiritimati'])(
  'begin when they do in %s',
  (zone) => {
    for (let date = '2026-01-01'; date <= '2026-12-31'; date = addDays(date, 1)) {
      const start = Temporal.PlainDate.from(date).toZonedDateTime(zone);
      expect([date, startOf(date, zone)]).toEqual([date, start.epochMilliseconds / 1000]);
    }
  },
);
