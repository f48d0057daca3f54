// What tests read in the served OpenAPI document: its operations, flat. Knows nothing of the routes it was made from.
import type { Action } from '../../src/domain/access.ts';
import type { JsonSchema } from './json-schema.ts';

type Content = {
  'application/json'?: { schema: JsonSchema; example?: unknown; examples?: Record<string, { value: unknown }> };
};

type Parameter = {
  name: string;
  in: 'path' | 'query' | 'header';
  required: boolean;
  schema: JsonSchema;
  example?: unknown;
};

export type Operation = {
  method: string;
  path: string;
  operationId?: string;
  summary?: string;
  tags?: string[];
  security?: Record<string, string[]>[];
  'x-actions'?: Action[];
  parameters?: Parameter[];
  requestBody?: { required?: boolean; content: Content };
  responses: Record<string, { description: string; content?: Content; headers?: Record<string, unknown> }>;
};

export type OpenApiDocument = {
  openapi: string;
  tags: { name: string }[];
  paths: Record<string, Record<string, Omit<Operation, 'method' | 'path'>>>;
  components: { schemas: Record<string, JsonSchema>; securitySchemes: Record<string, JsonSchema> };
};

export function listOperations(document: OpenApiDocument): Operation[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, ...operation })),
  );
}

/** A body that the reference gives as an example, put together from its members if need be; undefined for none. */
export function exampleBody(document: OpenApiDocument, operation: Operation): unknown {
  const schema = operation.requestBody?.content['application/json']?.schema;
  return schema && exampleOf(document, schema);
}

function exampleOf(document: OpenApiDocument, schema: JsonSchema): unknown {
  if (typeof schema['$ref'] === 'string') {
    const name = schema['$ref'].split('/').at(-1) ?? '';
    return exampleOf(document, document.components.schemas[name] ?? {});
  }
  if ('example' in schema) return schema['example'];
  if (schema['properties'] === undefined) return undefined;
  const members = Object.entries(schema['properties'] as Record<string, JsonSchema>);
  const examples = members.map(([name, member]) => [name, exampleOf(document, member)] as const);
  return Object.fromEntries(examples.filter(([, example]) => example !== undefined));
}
