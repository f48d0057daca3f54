// What tests read in the served OpenAPI document: its operations, flat. Knows nothing of the routes it was made from.
import type { JsonSchema } from './json-schema.ts';

type Content = {
  'application/json'?: { schema: JsonSchema; example?: unknown; examples?: Record<string, { value: unknown }> };
};

export type Operation = {
  method: string;
  /** With its parameters as `{name}`. */
  path: string;
  operationId?: string;
  summary?: string;
  tags?: string[];
  security?: Record<string, string[]>[];
  parameters?: { name: string; in: 'path' | 'query' | 'header'; required: boolean; schema: JsonSchema }[];
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
