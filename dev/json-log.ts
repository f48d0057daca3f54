// One JSON object a line on stdout: how the processes started by `npm start` speak to the supervisor, which decides
// what a person sees. Must not format, filter or colour.
export type LogLevel = 'debug' | 'info' | 'warn' | 'error';
export type Log = (level: LogLevel, event: string, fields?: Record<string, unknown>) => void;

export function createJsonLog(part: string): Log {
  return (level, event, fields = {}) => {
    process.stdout.write(`${JSON.stringify({ time: new Date().toISOString(), level, part, event, ...fields })}\n`);
  };
}
