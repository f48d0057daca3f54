// The output of `npm start`: one line an event, with milliseconds. Colours only on a terminal. Formats only.
import { styleText } from 'node:util';
import { describeFailure } from '../rig/clients/api.ts';
import { refusedLoginEvent, rejectedMessageEvent } from '../src/protocol/log-events.ts';
import { readLogLine, type LogLine } from './local/log-line.ts';

const colours = {
  api: 'cyan',
  device: 'green',
  relay: 'magenta',
  broker: 'yellow',
  worker: 'cyan',
  bridge: 'blue',
} as const;
const repeatAfterMs = 5_000;
const maxRemembered = 500;
/** Lines about devices within `repeatAfterMs`. */
const maxDeviceLines = 10;

export function print(text = ''): void {
  process.stdout.write(`${text}\n`);
}

/** `13:44:05.123  device   replied` */
export function say(who: string, text: string): void {
  const style = who in colours ? colours[who as keyof typeof colours] : 'bold';
  print(`${styleText('dim', clock())}  ${styleText(style, who.padEnd(7))}  ${text}`);
}

export function warn(who: string, text: string): void {
  say(who, styleText('yellow', text));
}

/** Says why this process ends, and ends it. */
export function fail(error: unknown): never {
  process.stderr.write(`${styleText('red', describeFailure(error), { stream: process.stderr })}\n`);
  process.exit(1);
}

/** Stacks stay in the log file. */
const leftOut = ['time', 'part', 'message', 'stack', 'requestId'];

/** Shows warnings and errors of a part's JSON log, the same event once every few seconds, and what keeps a device from working. */
export function createTroubleFilter(part: string): (line: string) => void {
  const shownAtMs = new Map<string, number>();
  const showDeviceTrouble = createDeviceTrouble((text) => warn('device', text));
  return (line) => {
    const entry = readLogLine(line);
    if (entry !== undefined && showDeviceTrouble(entry)) return;
    if (entry?.level !== 'warn' && entry?.level !== 'error') return;
    const { level, event } = entry;
    const key = `${level} ${event}`;
    if (Date.now() - (shownAtMs.get(key) ?? 0) < repeatAfterMs) return;
    if (shownAtMs.size >= maxRemembered) shownAtMs.clear();
    shownAtMs.set(key, Date.now());
    const fields = Object.entries(entry.fields).filter(([name]) => !leftOut.includes(name));
    const details = fields.map(([name, value]) => `${name}=${shorten(value)}`).join(', ');
    const text = `${event.replaceAll('_', ' ')}${details === '' ? '' : `: ${details}`}`;
    say(part, level === 'error' ? styleText('red', text) : styleText('yellow', text));
  };
}

/** Each device's trouble, a few lines in a row, then how many more there were. False for any other line. */
export function createDeviceTrouble(tell: (text: string) => void): (entry: LogLine) => boolean {
  let [beganAtMs, shown, left] = [0, 0, 0];
  return (entry) => {
    const text = describeDeviceTrouble(entry);
    if (text === undefined) return false;
    if (Date.now() - beganAtMs >= repeatAfterMs) {
      if (left > 0) tell(`${left} more lines about devices are in logs/worker.log`);
      [beganAtMs, shown, left] = [Date.now(), 0, 0];
    }
    if (shown < maxDeviceLines) tell(text);
    else left += 1;
    shown += 1;
    return true;
  };
}

function describeDeviceTrouble({ event, fields }: LogLine): string | undefined {
  const { deviceId, reason, topic, text, dropped, countInHour, address } = fields;
  const [id, why] = [String(deviceId), String(reason).replaceAll('_', ' ')];
  if (event === rejectedMessageEvent) {
    const members = Array.isArray(dropped) && dropped.length > 0 ? ` (${dropped.join(', ')})` : '';
    return `${id}: ${String(topic)} not understood, ${why}${members}: ${shorten(text ?? '')}`;
  }
  if (event !== refusedLoginEvent) return undefined;
  const from = typeof address === 'string' ? ` from ${address}` : '';
  return `${id}: login${from} refused, ${why}, ${String(countInHour)} in this hour`;
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
