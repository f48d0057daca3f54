// The output of `npm start`: one line an event, with milliseconds. Colours only on a terminal. Formats only.
import { styleText } from 'node:util';
import { describeFailure } from '../rig/clients/api.ts';
import { refusedDirectLoginEvent, rejectedMessageEvent } from '../src/protocol/log-events.ts';

const colours = {
  api: 'cyan',
  device: 'green',
  relay: 'magenta',
  broker: 'yellow',
  worker: 'cyan',
  bridge: 'blue',
} as const;
const repeatAfterMs = 5_000;
/** Lines of one kind within `repeatAfterMs`. */
const maxOfKind = 5;

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

/**
 * Shows the lines of a part's JSON log that a person should see: warnings, errors, and what keeps a device from working. Of each
 * kind a few in a row, then how many more there were.
 */
export function createTroubleFilter(part: string, show = say): (line: string) => void {
  const kinds = new Map<string, { beganAtMs: number; shown: number; left: number }>();
  return (line) => {
    const trouble = describeTrouble(part, line);
    if (trouble === undefined) return;
    const { who, kind, text } = trouble;
    const before = kinds.get(kind);
    const isOver = Date.now() - (before?.beganAtMs ?? 0) >= repeatAfterMs;
    const count = before === undefined || isOver ? { beganAtMs: Date.now(), shown: 0, left: 0 } : before;
    kinds.set(kind, count);
    if (isOver && before !== undefined && before.left > 0)
      show(who, `${before.left} more lines are in logs/${part}.log`);
    if (count.shown < maxOfKind) show(who, text);
    else count.left += 1;
    count.shown += 1;
  };
}

function describeTrouble(part: string, line: string): { who: string; kind: string; text: string } | undefined {
  const { level, event, ...fields } = parse(line);
  const device = describeDeviceTrouble(event, fields);
  if (device !== undefined) return { who: 'device', kind: 'device', text: styleText('yellow', device) };
  if (level !== 'warn' && level !== 'error') return undefined;
  // The bridge and the gateway log a `message`.
  const name = String(event ?? fields['message']);
  const shown = Object.entries(fields).filter(([field]) => !leftOut.includes(field));
  const details = shown.map(([field, value]) => `${field}=${shorten(value)}`).join(', ');
  const text = `${name.replaceAll('_', ' ')}${details === '' ? '' : `: ${details}`}`;
  return { who: part, kind: name, text: styleText(level === 'error' ? 'red' : 'yellow', text) };
}

function describeDeviceTrouble(event: unknown, fields: Record<string, unknown>): string | undefined {
  const { deviceId, reason, topic, text, dropped, username, peerhost, refusal, problem, credential } = fields;
  const words = (...parts: unknown[]): string => parts.join(' ').replaceAll('_', ' ');
  if (event === rejectedMessageEvent) {
    const members = Array.isArray(dropped) && dropped.length > 0 ? ` (${dropped.join(', ')})` : '';
    return `${String(deviceId)}: ${String(topic)} not understood, ${words(reason)}${members}: ${shorten(text ?? '')}`;
  }
  // Of the local broker, whose user names end with the device id.
  if (event === 'login_refused') {
    return `${String(username).replace(/^.*&/, '')}: login from ${String(peerhost)} refused, ${words(reason)}`;
  }
  if (event !== refusedDirectLoginEvent) return undefined;
  const why = problem === undefined ? words(refusal) : words(problem, credential);
  return `${String(deviceId)}: login over WebSocket refused, ${why}`;
}

/** Nothing of a line that is text, or was cut off. */
function parse(line: string): Record<string, unknown> {
  try {
    return line.startsWith('{') ? (JSON.parse(line) as Record<string, unknown>) : {};
  } catch (error) {
    if (error instanceof SyntaxError) return {};
    throw error;
  }
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
