// One JSON object a line on stdout: how the processes started by `npm start` report to the supervisor, which
// decides what is shown. Must not format, filter or colour.
export const logLevels = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof logLevels)[number];
export type Log = (level: LogLevel, event: string, fields?: Record<string, unknown>) => void;

export function createJsonLog(part: string): Log {
  return (level, event, fields = {}) => {
    const line = { time: new Date().toISOString(), part, ...fields, level, event };
    process.stdout.write(`${JSON.stringify(line)}\n`);
  };
}
