// Answers a list as JSON, or as CSV (RFC 4180) if the request prefers it. A text that a spreadsheet would run as a formula begins
// with an apostrophe.
import type { Context } from 'hono';
import { accepts } from 'hono/accepts';
import { z } from 'zod';
import { answer, type Answer } from './envelope.ts';

const json = 'application/json';
const csv = 'text/csv';

/** For the reference: the answer of a route comes as CSV, too. */
export function withCsv<Declared extends { responses: { 200: { content: object } } }>(declared: Declared): Declared {
  const text = { schema: { type: 'string' }, example: 'from,to' };
  Object.assign(declared.responses[200].content, { [csv]: text });
  return declared;
}

type Cell = string | number;

/** The members of `row` are the columns, in its order, and the members of its objects. */
export async function answerTable<T extends { list: readonly object[] }>(
  c: Context,
  data: Promise<T>,
  row: z.ZodObject,
): Promise<Answer<T>> {
  c.header('Vary', 'Accept', { append: true });
  const preferred = accepts(c, { header: 'Accept', supports: [json, csv], default: json });
  if (preferred === json) return answer(c, data);
  const names = Object.entries(row.shape).flatMap(([name, type]) =>
    type instanceof z.ZodObject ? Object.keys(type.shape) : name,
  );
  const lines = (await data).list.map((entry) => {
    const cells = Object.values(entry).flatMap((cell: Cell | Record<string, Cell>) =>
      typeof cell === 'object' ? Object.values(cell) : [cell],
    );
    return cells.map(cellOf).join();
  });
  const text = [names.join(), ...lines, ''].join('\r\n');
  const response: Response = c.body(text, 200, { 'Content-Type': `${csv}; charset=utf-8` });
  return response as Answer<T>;
}

function cellOf(cell: Cell): string {
  if (typeof cell === 'number') return String(cell);
  const safe = /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
