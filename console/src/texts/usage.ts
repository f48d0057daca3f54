// Texts about usage and history. Loaded with the tab that shows them.
const precision = { maximumFractionDigits: 2, maximumSignificantDigits: 3, roundingPriority: 'morePrecision' } as const;
const number = (value: number) => value.toLocaleString('en', precision);
const counted = (count: number, one: string, more: string) => `${number(count)} ${count === 1 ? one : more}`;

/** Of seconds, in the largest two units. */
function lengthOf(seconds: number): string {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60)];
  if (hours === 0) return `${minutes} min`;
  return minutes === 0 ? `${number(hours)} h` : `${number(hours)} h ${minutes} min`;
}

export const usageTexts = {
  day: 'One day',
  previous: 'Previous day',
  next: 'Next day',
  month: 'One month',
  monthName: 'Month',
  numbers: 'A number over time',
  property: 'Number',
  span: 'Time',
  spans: { day: 'The day above', week: '7 days up to it', month: '30 days up to it' },
  values: { on: 'On', off: 'Off', unknown: 'Not known' },
  numberParts: { mean: 'Mean', between: 'From least to greatest' },
  inWords: (title: string) => `In words: ${title}`,
  hours: (hours: number) => `${hours} h`,
  /** Templates of the chart library. */
  axis: { time: '{HH}:{mm}', date: '{D} {MMM}' },
  of: (title: string, facts: string) => `${title}: ${facts}`,
  sums: (on: number, off: number, unknown: number) =>
    `On ${lengthOf(on)}, off ${lengthOf(off)}, not known ${lengthOf(unknown)}.`,
  presses: (causes: readonly { count: number; text: string }[]) => {
    if (causes.length === 0) return ' No presses.';
    const total = causes.reduce((sum, { count }) => sum + count, 0);
    return ` ${counted(total, 'press', 'presses')}: ${causes.map(({ count, text }) => `${number(count)} ${text}`).join(', ')}.`;
  },
  causes: { schedule: 'by schedule', person: 'by people', key: 'by API key', scene: 'by scene', hand: 'by hand' },
  failures: (count: number) => (count === 0 ? '' : ` ${counted(count, 'failure', 'failures')}.`),
  isCut: ' The day had more than 200 changes: later ones are missing here. The sums have them.',
  segment: (from: string, until: string, value: string) => `${from} to ${until}: ${value.toLowerCase()}`,
  range: (least: number, greatest: number, mean: number, count: number) =>
    `${number(least)} to ${number(greatest)}, mean ${number(mean)}, ${counted(count, 'report', 'reports')}.`,
  noPoints: 'no report is kept for this time.',
  download: 'Download as CSV',
  zone: (zone: string) => `Days are those of ${zone}.`,
  nextZone: (zone: string) => `From the next day on, they are those of ${zone}.`,
  changeZone: 'Change the zone',
};
