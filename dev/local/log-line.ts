// Reads one line that a part printed. The Worker and the broker log an `event`, the bridge a `message`.
export type LogLine = { level: string; event: string; fields: Record<string, unknown> };

/** undefined for text, and for a line that was cut off. */
export function readLogLine(line: string): LogLine | undefined {
  const { level, event, message, ...fields } = parse(line);
  const name = event ?? message;
  if (typeof level !== 'string' || typeof name !== 'string') return undefined;
  return { level, event: name, fields: event === undefined || message === undefined ? fields : { ...fields, message } };
}

function parse(line: string): Record<string, unknown> {
  try {
    return line.startsWith('{') ? (JSON.parse(line) as Record<string, unknown>) : {};
  } catch (error) {
    if (error instanceof SyntaxError) return {};
    throw error;
  }
}
