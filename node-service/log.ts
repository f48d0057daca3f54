// One line an event on standard output: JSON for collectors, or short text for a terminal.
// Callers must not pass secrets, payloads of devices or whole error objects of the MQTT library.

const levels = ['debug', 'info', 'warn', 'error'] as const;
type LogLevel = (typeof levels)[number];
type LogFields = Record<string, string | number | boolean | null | undefined>;
type Line = LogFields & Record<'time' | 'level' | 'message', string>;

export type Log = Record<LogLevel, (message: string, fields?: LogFields) => void>;

export type LogOptions = { level: LogLevel; format: 'json' | 'pretty' };

export function createLog(options: LogOptions): Log {
  const lowest = levels.indexOf(options.level);
  const render = options.format === 'json' ? JSON.stringify : renderText;
  const at =
    (level: LogLevel) =>
    (message: string, fields: LogFields = {}): void => {
      if (levels.indexOf(level) < lowest) return;
      process.stdout.write(`${render({ time: new Date().toISOString(), level, message, ...fields })}\n`);
    };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}

/** The text of anything thrown, on one line and without a stack. */
export function describeError(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return error.errors.map(describeError).join('; ');
  if (error instanceof Error) return error.message || error.name;
  return String(error);
}

function renderText({ time, level, message, ...fields }: Line): string {
  const pairs = Object.entries(fields).map(([name, value]) => ` ${name}=${String(value)}`);
  return `${time.slice(11, 23)} ${level.padEnd(5)} ${message}${pairs.join('')}`;
}
