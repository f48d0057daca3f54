// Days as the service counts them: a date is a day in a zone. Knows no screen.
export const daysKept = 400;
const hourMs = 3_600_000;

export function addDays(date: string, count: number): string {
  return new Date(Date.parse(date) + count * 24 * hourMs).toISOString().slice(0, 10);
}

/** When the day begins in the zone, in seconds since 1970. Days of 23 and 25 hours are so long. */
export function startOf(date: string, zone: string): number {
  const dates = new Intl.DateTimeFormat('sv-SE', { timeZone: zone });
  // No zone is further from UTC than 14 hours.
  let [beforeS, startS] = [-15, 15].map((hours) => (Date.parse(date) + hours * hourMs) / 1000) as [number, number];
  while (startS - beforeS > 1) {
    const middleS = Math.floor((beforeS + startS) / 2);
    if (dates.format(middleS * 1000) < date) beforeS = middleS;
    else startS = middleS;
  }
  return startS;
}

/** @param at an instant or, in UTC, a date; `style` says what of it is told */
export function timeWords(at: string | number, style: Intl.DateTimeFormatOptions, timeZone = 'UTC'): string {
  return new Date(at).toLocaleString('en-GB', { ...style, timeZone });
}

export function dateWords(date: string): string {
  return timeWords(date, { weekday: 'short', day: 'numeric', month: 'short', year: 'numeric' });
}

export function monthWords(month: string): string {
  return timeWords(month, { month: 'long', year: 'numeric' });
}
