// Requests for every route of the reference: nearly right, wrong and hostile in path, query, headers and body. Also the
// check of an answer. Sends nothing.
import fc from 'fast-check';
import { bodyTextFor, hostileText, validFor } from './hostile-json.ts';
import { createSchemaCheck, resolve, type JsonSchema } from './json-schema.ts';
import { listOperations, type OpenApiDocument, type Operation } from './openapi-document.ts';

export type HostileRequest = {
  /** Method and path pattern, so that a report stays short. */
  operation: string;
  /** Path and query. */
  url: string;
  body: string | undefined;
  /** Which of the credentials that the caller has. */
  credential: number;
  headers: Record<string, string>;
};

export type HostileAnswer = { status: number; contentType: string | null; requestId: string | null; text: string };

type Wrapped = { code: number; message: string; data: unknown };

const nameOf = ({ method, path }: Pick<Operation, 'method' | 'path'>) => `${method} ${path}`;

export class HostileRequests {
  readonly operations: Operation[];
  readonly #document: OpenApiDocument;
  readonly #checkAnswer: ReturnType<typeof createSchemaCheck>;
  readonly #checkBody: ReturnType<typeof createSchemaCheck>;

  constructor(document: OpenApiDocument) {
    this.#document = document;
    this.operations = listOperations(document).filter(({ tags }) => !/Reference|Health/.test(String(tags)));
    this.#checkAnswer = createSchemaCheck(document, { isClosed: true });
    this.#checkBody = createSchemaCheck(document, { isClosed: false });
  }

  /** @param objects ids that exist, by the name of the path's parameter */
  arbitrary(objects: Record<string, string>, credentials: number): fc.Arbitrary<HostileRequest> {
    return fc.oneof(...this.operations.map((operation) => this.#requestFor(operation, objects, credentials)));
  }

  /** What an answer must never be; undefined if it is right. */
  problemOf({ operation: name, url }: HostileRequest, answer: HostileAnswer): string | undefined {
    if (!/^application\/json/.test(answer.contentType ?? '')) return `content type ${answer.contentType}`;
    if (!/^[A-Za-z0-9._-]{1,64}$/.test(answer.requestId ?? '')) return `request id ${answer.requestId}`;
    const body = JSON.parse(answer.text) as Wrapped;
    // An object's name that is spoiled may lead to another route, or to none.
    if (answer.status === 404 && body.message === 'not_found' && body.data === null) return undefined;
    if (answer.status >= 500) return `${answer.status} ${body.message}`;
    if (new TextEncoder().encode(body.message).length > 200) return 'a message of more than 200 bytes';
    const path = url.split('?', 1)[0] ?? '';
    // Dots in a name lead to another route, as they do everywhere.
    if (new URL(path, 'https://latchwork.test').pathname !== path) return undefined;
    const said = this.#operation(name).responses[String(answer.status)]?.content?.['application/json']?.schema;
    if (said === undefined) return `the reference says no ${answer.status} (${body.message})`;
    return this.#checkAnswer(said, body)[0];
  }

  /** Whether the body may be taken as it is. */
  isBodyValid({ operation, body }: HostileRequest): boolean {
    const schema = this.#operation(operation).requestBody?.content['application/json']?.schema;
    // The service reads past a byte order mark.
    const value = body === undefined ? undefined : parse(body.replace(/^\ufeff/, ''));
    return schema !== undefined && value !== undefined && this.#checkBody(schema, value).length === 0;
  }

  #operation(name: string): Operation {
    const found = this.operations.find((operation) => nameOf(operation) === name);
    if (found === undefined) throw new Error(`the reference has no ${name}`);
    return found;
  }

  #requestFor(
    operation: Operation,
    objects: Record<string, string>,
    credentials: number,
  ): fc.Arbitrary<HostileRequest> {
    const schema = operation.requestBody?.content['application/json']?.schema;
    const text = schema === undefined ? hostileText : bodyTextFor(resolve(this.#document, schema) as JsonSchema);
    const names = [...operation.path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
    // What is deleted once would be missing from then on.
    const isDelete = operation.method === 'DELETE';
    const parameters = names.map((name) =>
      fc.oneof(
        { weight: isDelete ? 0 : 4, arbitrary: fc.constant(objects[name] ?? '') },
        { weight: 1, arbitrary: hostileText },
      ),
    );
    const path = fc.tuple(...parameters).map((values) => fill(operation.path, names, values));
    return fc.record({
      operation: fc.constant(nameOf(operation)),
      url: fc.tuple(path, queryFor(operation)).map(([one, query]) => (query === '' ? one : `${one}?${query}`)),
      body: operation.method === 'GET' ? fc.constant(undefined) : fc.option(text, { nil: undefined, freq: 20 }),
      credential: fc.nat(credentials - 1),
      headers: hostileHeaders,
    });
  }
}

function fill(path: string, names: string[], values: string[]): string {
  return names.reduce((text, name, index) => text.replace(`{${name}}`, () => encode(values[index] ?? '')), path);
}

/** Leaves `%` as it is, like a careless client. */
function encode(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replaceAll('%25', '%').slice(0, 2_000);
}

function queryFor(operation: Operation): fc.Arbitrary<string> {
  const known = (operation.parameters ?? []).filter((parameter) => parameter.in === 'query');
  const pairs = known.map(({ name, schema }) =>
    fc.oneof(
      { weight: 4, arbitrary: fc.constant('') },
      {
        // What holds an answer for seconds is tried by its wrong values alone.
        weight: name === 'wait' ? 0 : 2,
        arbitrary: validFor(schema).map(
          (value) => `${name}=${encode(typeof value === 'string' ? value : JSON.stringify(value))}`,
        ),
      },
      { weight: 2, arbitrary: hostileText.map((text) => `${name}=${encode(text)}`) },
      { weight: 1, arbitrary: hostileText.map((text) => `${name}=0&${name}=1&${name}[]=2&${encode(text)}=3`) },
    ),
  );
  return fc.tuple(...pairs).map((parts) => parts.filter((part) => part !== '').join('&'));
}

const headerText = fc.string({ maxLength: 60 }).map((text) => text.replaceAll(/[^\x20-\x7e]/g, '').trim());
const hostileHeaders: fc.Arbitrary<Record<string, string>> = fc.oneof(
  { weight: 6, arbitrary: fc.constant({}) },
  {
    weight: 2,
    arbitrary: fc.record(
      {
        'Content-Type': fc.constantFrom('text/plain', 'application/json; charset=utf-16', 'multipart/form-data', ''),
        'X-Request-Id': headerText,
        Origin: fc.constantFrom('https://app.test', 'null', 'https://elsewhere.test'),
        'CF-Connecting-IP': fc.oneof(headerText, fc.constantFrom('::', '::1', '2001:db8::1', '1.2.3.4')),
        'Idempotency-Key': headerText,
        'Content-Length': fc.constantFrom('0', '99999999'),
      },
      { requiredKeys: [] },
    ),
  },
  { weight: 1, arbitrary: headerText.map((text) => ({ Authorization: text })) },
  { weight: 1, arbitrary: headerText.map((text) => ({ 'X-API-Key': text, 'X-API-Secret': text })) },
);

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
