// The output of `npm start`: one line an event, with milliseconds. Colours only on a terminal. Formats only.
import pc from 'picocolors';
import { describeFailure } from '../test/rig/api.ts';
import { readLogLine } from './log-line.ts';

const { isTTY } = process.stdout;
const hasColours = isTTY && (process.env['NO_COLOR'] ?? '') === '';
export const colours = pc.createColors(hasColours);

const paints: Record<string, (text: string) => string> = {
  api: colours.cyan,
  device: colours.green,
  relay: colours.magenta,
  broker: colours.yellow,
  worker: colours.cyan,
  bridge: colours.blue,
};
const repeatAfterMs = 5_000;
const maxRemembered = 500;

export function print(text = ''): void {
  process.stdout.write(`${text}\n`);
}

/** `13:44:05.123  device   replied` */
export function say(who: string, text: string): void {
  const paint = paints[who] ?? colours.bold;
  print(`${colours.dim(clock())}  ${paint(who.padEnd(7))}  ${text}`);
}

export function warn(who: string, text: string): void {
  say(who, colours.yellow(text));
}

/** Says why this process ends, and ends it. */
export function fail(error: unknown): never {
  process.stderr.write(`${colours.red(describeFailure(error))}\n`);
  process.exit(1);
}

/** Stacks stay in the log file. */
const leftOut = ['time', 'part', 'message', 'stack', 'requestId'];

/** Shows warnings and errors of a part's JSON log; the same event once every few seconds. */
export function createTroubleFilter(part: string): (line: string) => void {
  const shownAtMs = new Map<string, number>();
  return (line) => {
    const entry = readLogLine(line);
    if (entry?.level !== 'warn' && entry?.level !== 'error') return;
    const { level, event } = entry;
    const key = `${level} ${event}`;
    if (Date.now() - (shownAtMs.get(key) ?? 0) < repeatAfterMs) return;
    if (shownAtMs.size >= maxRemembered) shownAtMs.clear();
    shownAtMs.set(key, Date.now());
    const fields = Object.entries(entry.fields).filter(([name]) => !leftOut.includes(name));
    const details = fields.map(([name, value]) => `${name}=${shorten(value)}`).join(', ');
    const text = `${event.replaceAll('_', ' ')}${details === '' ? '' : `: ${details}`}`;
    say(part, level === 'error' ? colours.red(text) : colours.yellow(text));
  };
}

export function shorten(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const oneLine = text.replaceAll(/\s+/g, ' ');
  return oneLine.length > 160 ? `${oneLine.slice(0, 160)}…` : oneLine;
}

function clock(): string {
  return new Date().toLocaleTimeString('en-GB', {
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    fractionalSecondDigits: 3,
  });
}
