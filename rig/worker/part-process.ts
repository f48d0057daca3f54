// What the local broker and the Worker have in common as processes of their own: a JSON log line each on stdout,
// settings from the environment, {type:'ready'} over IPC, an answer to each {type:'ask-life'}, an end by signal or with
// the parent. A parent that does not read the log must not hold the part up: lines that do not fit are counted.
const logLevels = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof logLevels)[number];
export type Log = (level: LogLevel, event: string, fields?: Record<string, unknown>) => void;

export const lifeQuestion = { type: 'ask-life' };
export const lifeAnswer = { type: 'alive' };

/** What may wait for the reader of the log. Writing to a pipe never blocks: it would only fill this process's memory. */
const maxUnreadBytes = 1024 * 1024;
const lifeAnswerMs = 5_000;

type RunningPart = {
  ready: Record<string, unknown>;
  /** Asks what the part runs besides this process; the answer to the parent says how it failed. */
  check?: (signal: AbortSignal) => Promise<void>;
  stop: () => Promise<void>;
};

export function createJsonLog(part: string): Log {
  let droppedLines = 0;
  const write = (fields: Record<string, unknown>): void => {
    process.stdout.write(`${JSON.stringify({ time: new Date().toISOString(), part, ...fields })}\n`);
  };
  return (level, event, fields = {}) => {
    if (process.stdout.writableLength > maxUnreadBytes) {
      droppedLines += 1;
      return;
    }
    if (droppedLines > 0) write({ lines: droppedLines, level: 'warn', event: 'log_not_read' });
    droppedLines = 0;
    write({ ...fields, level, event });
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

/** Starts the part in this process; ends with 1 where it cannot start or stop. */
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
  process.on('message', (message) => {
    if ((message as { type?: unknown }).type === lifeQuestion.type && running !== undefined) answerLife(running);
  });
  process.on('disconnect', stop);
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  start().then((part) => {
    running = part;
    log('info', 'ready', part.ready);
    process.send?.({ type: 'ready', ...part.ready });
  }, endBecause('cannot_start'));
}

function answerLife({ check }: RunningPart): void {
  const checked = check?.(AbortSignal.timeout(lifeAnswerMs)) ?? Promise.resolve();
  checked.then(
    () => process.send?.(lifeAnswer),
    (error: unknown) => process.send?.({ ...lifeAnswer, failure: String(error) }),
  );
}
