// The output of `npm start`: one line an event, with milliseconds. Colours only on a terminal. Formats only.
import pc from 'picocolors';
import { describeFailure } from '../test/rig/api.ts';
import type { LogLevel } from './json-log.ts';

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

/** Shows the lines of a part's JSON log that need eyes; the same trouble once every few seconds. */
export function createTroubleFilter(part: string): (line: string) => void {
  const shownAtMs = new Map<string, number>();
  return (line) => {
    const entry = readLine(line);
    if (entry === undefined || (entry.level !== 'warn' && entry.level !== 'error')) return;
    const key = `${entry.level} ${entry.event}`;
    if (Date.now() - (shownAtMs.get(key) ?? 0) < repeatAfterMs) return;
    shownAtMs.set(key, Date.now());
    const paint = entry.level === 'error' ? colours.red : colours.yellow;
    say(part, paint(`${entry.event.replaceAll('_', ' ')}${entry.details}`));
  };
}

type LogLine = { level: LogLevel; event: string; details: string };

/** Stacks stay in the log file. */
const leftOut = ['time', 'part', 'level', 'event', 'message', 'stack', 'requestId'];

function readLine(line: string): LogLine | undefined {
  if (!line.startsWith('{')) return undefined;
  try {
    const entry = JSON.parse(line) as Record<string, unknown>;
    const { level } = entry;
    // The Worker and the broker log an `event`, the bridge a `message`.
    const event = entry['event'] ?? entry['message'];
    if (typeof level !== 'string' || typeof event !== 'string') return undefined;
    const fields = Object.entries(entry).filter(([name]) => !leftOut.includes(name));
    const details = fields.map(([name, value]) => `${name}=${shorten(value)}`).join(', ');
    return { level: level as LogLevel, event, details: details === '' ? '' : `: ${details}` };
  } catch (error) {
    // A line that was cut off is in the log file.
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function shorten(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const oneLine = text.replaceAll(/\s+/g, ' ');
  return oneLine.length > 160 ? `${oneLine.slice(0, 160)}…` : oneLine;
}

function clock(): string {
  const now = new Date();
  const two = (value: number) => String(value).padStart(2, '0');
  const milliseconds = String(now.getMilliseconds()).padStart(3, '0');
  return `${two(now.getHours())}:${two(now.getMinutes())}:${two(now.getSeconds())}.${milliseconds}`;
}
