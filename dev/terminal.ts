// The output of `npm start`: one line an event, with milliseconds. Colours only on a terminal. Formats only.
import { styleText } from 'node:util';
import { describeFailure } from '../rig/clients/api.ts';
import { isJsonObject, parseJson } from '../src/domain/json.ts';
import { refusedDirectLoginEvent, rejectedMessageEvent } from '../src/protocol/log-events.ts';

const clock = { hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 } as const;
const colours: Partial<Record<string, 'cyan' | 'green' | 'magenta' | 'yellow' | 'blue'>> = {
  api: 'cyan',
  device: 'green',
  relay: 'magenta',
  broker: 'yellow',
  worker: 'cyan',
  bridge: 'blue',
};

export function print(text = ''): void {
  process.stdout.write(`${text}\n`);
}

/** `13:44:05.123  device   replied` */
export function say(who: string, text: string): void {
  const time = new Date().toLocaleTimeString('en-GB', clock);
  print(`${styleText('dim', time)}  ${styleText(colours[who] ?? 'bold', who.padEnd(7))}  ${text}`);
}

export function warn(who: string, text: string): void {
  say(who, styleText('yellow', text));
}

export function fail(error: unknown): never {
  process.stderr.write(`${styleText('red', describeFailure(error), { stream: process.stderr })}\n`);
  process.exit(1);
}

/** Stacks stay in the log file. */
const leftOut = ['time', 'part', 'message', 'stack', 'requestId'];

/** Shows a line of a part's JSON log that a person should see: a warning, an error, or what keeps a device from working. */
export function showTrouble(part: string, line: string): void {
  // A line may be text, or cut off.
  const parsed = parseJson(line);
  const { level, event, ...fields }: Record<string, unknown> = isJsonObject(parsed) ? parsed : {};
  const device = describeDeviceTrouble(event, fields);
  if (device !== undefined) warn('device', device);
  if (device !== undefined || (level !== 'warn' && level !== 'error')) return;
  // The bridge and the gateway log a `message`.
  const name = String(event ?? fields['message']).replaceAll('_', ' ');
  const shown = Object.entries(fields).filter(([field]) => !leftOut.includes(field));
  const details = shown.map(([field, value]) => `${field}=${shorten(value)}`).join(', ');
  say(part, styleText(level === 'error' ? 'red' : 'yellow', details === '' ? name : `${name}: ${details}`));
}

function describeDeviceTrouble(event: unknown, fields: Record<string, unknown>): string | undefined {
  const { deviceId, home, reason, topic, text, dropped, username, peerhost, refusal, problem, credential } = fields;
  const words = (...parts: unknown[]): string => parts.join(' ').replaceAll('_', ' ');
  if (event === rejectedMessageEvent) {
    const members = Array.isArray(dropped) && dropped.length > 0 ? ` (${dropped.join(', ')})` : '';
    const said = typeof text === 'string' && text !== '' ? `: ${shorten(text)}` : '';
    return `${String(deviceId)}: ${shorten(topic ?? 'messages')} not used, ${words(reason)}${members}${said}`;
  }
  // The local broker logs this; its user names end with the device id.
  if (event === 'login_refused') {
    return `${String(username).replace(/^.*&/, '')}: login from ${String(peerhost)} refused, ${words(reason)}`;
  }
  if (event !== refusedDirectLoginEvent) return undefined;
  const why = problem === undefined ? words(refusal) : words(problem, credential);
  return `${String(deviceId ?? home)}: login over WebSocket refused, ${why}`;
}

export function shorten(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const oneLine = text.replaceAll(/\s+/g, ' ');
  return oneLine.length > 160 ? `${oneLine.slice(0, 160)}…` : oneLine;
}
