// Serial numbers out of a text, sent to the service in calls of the size that it takes. What was sent is not sent again
// when an import that was stopped goes on.
import { ApiError, dataOf } from '@latchwork/client';
import { signal } from '@preact/signals';
import { InputError } from '../errors.ts';
import { productsTexts } from '../texts/products.ts';
import { session } from './session.ts';

export type SerialResult = keyof typeof productsTexts.serials.results;
export type SerialLine = { line: number; serial: unknown };
export type ImportedLine = { line: number; deviceSN: string; claimCode: string | undefined; result: SerialResult };
type Entry = { deviceSN: string; claimCode: string };

/** A request holds 64 KiB. */
const maxBytes = 60_000;

/**
 * CSV: the first column, under the heading `deviceSN,claimCode` the second, too, as the service reads it. JSON: a list of texts or
 * of `{"deviceSN", "claimCode"}`, or `{"serials": [...]}`.
 * @throws InputError
 */
export function readSerials(text: string): SerialLine[] {
  const content = text.replace(/^\uFEFF/, '').trim();
  const found = /^[[{]/.test(content) ? readJson(content) : readCsv(text.replace(/^\uFEFF/, ''));
  if (found.length === 0) throw new InputError(productsTexts.serials.noneGiven);
  return found;
}

function readJson(content: string): SerialLine[] {
  let parsed: unknown;
  try {
    parsed = JSON.parse(content);
  } catch (error) {
    if (error instanceof SyntaxError) throw new InputError(productsTexts.serials.notJson(error.message));
    throw error;
  }
  const list = Array.isArray(parsed) ? parsed : (parsed as { serials?: unknown }).serials;
  if (!Array.isArray(list)) throw new InputError(productsTexts.serials.notJson(productsTexts.serials.noList));
  return list.map((serial: unknown, index) => ({ line: index + 1, serial }));
}

function readCsv(content: string): SerialLine[] {
  const lines = content.split(/\r\n|\n|\r/).map((row, index) => {
    const [deviceSN = '', claimCode = ''] = [...row.matchAll(/(?:^|[,;])\s*(?:"((?:[^"]|"")*)"|([^,;]*))/g)].map(
      ([, quoted, plain = '']) => (quoted?.replaceAll('""', '"') ?? plain).trim(),
    );
    return { line: index + 1, deviceSN, claimCode };
  });
  const filled = lines.filter(({ deviceSN }) => deviceSN !== '');
  const [heading] = filled;
  const hasHeading = heading?.deviceSN.toLowerCase() === 'devicesn';
  const hasCodes = hasHeading && heading.claimCode.toLowerCase() === 'claimcode';
  return filled.slice(hasHeading ? 1 : 0).map(({ line, deviceSN, claimCode }) => ({
    line,
    serial: hasCodes && claimCode !== '' ? { deviceSN, claimCode } : deviceSN,
  }));
}

export class SerialImport {
  readonly total: number;
  readonly sent = signal(0);
  readonly results = signal<readonly ImportedLine[]>([]);
  readonly #productKey: string;
  readonly #lines: readonly SerialLine[];
  readonly #seen = new Set<string>();
  #perCall = 1000;

  constructor(productKey: string, lines: readonly SerialLine[]) {
    this.#productKey = productKey;
    this.#lines = lines;
    this.total = lines.length;
  }

  get isDone(): boolean {
    return this.sent.value === this.total;
  }

  /** From where it stopped to the end. @throws ApiError, NoAnswerError */
  async run(): Promise<void> {
    while (!this.isDone) {
      const slice = this.#nextSlice();
      try {
        const results = await this.#send(slice);
        for (const { deviceSN } of results) this.#seen.add(deviceSN);
        this.results.value = [...this.results.value, ...results];
        this.sent.value += slice.length;
      } catch (error) {
        // The operator may allow fewer.
        const allowed = error instanceof ApiError ? Number(/at most (\d+) items/.exec(error.message)?.[1]) : Number.NaN;
        if (!(allowed < this.#perCall)) throw error;
        this.#perCall = allowed;
      }
    }
  }

  #nextSlice(): readonly SerialLine[] {
    const from = this.sent.value;
    let bytes = 0;
    let to = from;
    while (to < this.total && to - from < this.#perCall) {
      bytes += JSON.stringify(sendable(this.#lines[to]?.serial)).length + 1;
      if (bytes > maxBytes && to > from) break;
      to += 1;
    }
    return this.#lines.slice(from, to);
  }

  async #send(slice: readonly SerialLine[]): Promise<ImportedLine[]> {
    const param = { productKey: this.#productKey };
    const serials = slice.map(({ serial }) => sendable(serial)) as (string | Entry)[];
    const { list } = await dataOf(session().api.products[':productKey'].serials.$post({ param, json: { serials } }));
    return slice.map(({ line, serial }, index) => {
      const answered = list[index]?.result ?? 'invalid';
      // The service sees one call, the person one list.
      const entry = isEntry(serial) ? serial : undefined;
      const deviceSN = entry?.deviceSN ?? (typeof serial === 'string' ? serial : JSON.stringify(serial));
      const isRepeated = answered === 'exists' && this.#seen.has(deviceSN);
      return { line, deviceSN, claimCode: entry?.claimCode, result: isRepeated ? 'repeated' : answered };
    });
  }
}

/** What is no serial number is sent as none, so that it does not fill the request. */
function sendable(serial: unknown): string | Entry | null {
  if (isEntry(serial)) return isPrintable(serial.deviceSN) && isPrintable(serial.claimCode) ? serial : null;
  return typeof serial === 'string' && isPrintable(serial) ? serial : null;
}

function isPrintable(text: string): boolean {
  return /^[\x20-\x7e]{1,64}$/.test(text);
}

function isEntry(serial: unknown): serial is Entry {
  if (typeof serial !== 'object' || serial === null) return false;
  const { deviceSN, claimCode } = serial as Partial<Record<keyof Entry, unknown>>;
  return typeof deviceSN === 'string' && typeof claimCode === 'string';
}

export function toCsv(results: readonly ImportedLine[]): string {
  const quoted = (text: string) => `"${text.replaceAll('"', '""')}"`;
  const rows = results.map(({ line, deviceSN, result }) => `${quoted(deviceSN)},${line},${result}`);
  return ['deviceSN,line,result', ...rows].join('\r\n');
}
