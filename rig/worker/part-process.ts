// What the local broker and the Worker have in common as processes: JSON log lines on stdout and settings from the
// environment. They say {type:'ready'} over IPC, and end by a signal or with the parent.
const logLevels = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof logLevels)[number];
export type Log = (level: LogLevel, event: string, fields?: Record<string, unknown>) => void;

export type RunningPart = { ready: Record<string, unknown>; stop: () => Promise<void> };

export function createJsonLog(part: string): Log {
  return (level, event, fields = {}) => {
    process.stdout.write(`${JSON.stringify({ time: new Date().toISOString(), part, ...fields, level, event })}\n`);
  };
}

export function isLogLevel(text: string): text is LogLevel {
  return logLevels.some((level) => level === text);
}

export function requireSetting(name: string): string {
  const value = process.env[name];
  if (value === undefined || value === '') throw new Error(`${name} must be set`);
  return value;
}

/** Starts the part in this process; ends with 1 if it cannot start or stop. */
export function runPart(log: Log, start: () => Promise<RunningPart>): void {
  let running: RunningPart | undefined;
  let isStopping = false;
  const endBecause = (event: string) => (error: unknown) => {
    log('error', event, { error: error instanceof Error ? error.message : String(error) });
    process.exit(1);
  };
  const stop = (): void => {
    if (isStopping) return;
    isStopping = true;
    if (running === undefined) process.exit(0);
    running.stop().then(() => process.exit(0), endBecause('cannot_stop'));
  };
  process.on('disconnect', stop);
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  start().then((part) => {
    running = part;
    log('info', 'ready', part.ready);
    process.send?.({ type: 'ready', ...part.ready });
  }, endBecause('cannot_start'));
}
