// What linters that people use say of the served OpenAPI document: Redocly's recommended rules and Spectral's for OpenAPI.
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { Spectral, type RulesetDefinition } from '@stoplight/spectral-core';
import { oas } from '@stoplight/spectral-rulesets';
import { beforeAll, expect, it } from 'vitest';
import { service } from '../rig/conformance-client.ts';

let source: string;

beforeAll(async () => {
  source = await (await fetch(`${service.url}/api/v1/openapi.json`)).text();
});

it('pleases Redocly', async () => {
  // The reference documents themselves need nothing that could be wrong.
  const config = await createConfig({ extends: ['recommended'], rules: { 'operation-4xx-response': 'off' } });
  const problems = await lintFromString({ source, absoluteRef: '/openapi.json', config });
  expect(problems.map(({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer}`)).toEqual([]);
});

it('pleases Spectral', async () => {
  const spectral = new Spectral();
  // The rule knows OpenAPI 3.0, where only OAuth has scopes: since 3.1 other schemes may name roles.
  const rules = { 'oas3-operation-security-defined': 'off' } as const;
  spectral.setRuleset({ extends: [oas as RulesetDefinition], rules });
  const problems = await spectral.run(JSON.parse(source) as Record<string, unknown>);
  expect(problems.map(({ code, message, path }) => `${code}: ${message} ${path.join('/')}`)).toEqual([]);
});

it('has names of operations that read', () => {
  const { paths } = JSON.parse(source) as { paths: Record<string, Record<string, { operationId: string }>> };
  const ids = Object.values(paths).flatMap((methods) => Object.values(methods).map(({ operationId }) => operationId));
  expect(ids).toEqual(
    expect.arrayContaining(['sendCommand', 'listDevices', 'readDeviceStatus', 'activateDevice', 'logIn']),
  );
  for (const id of ids) expect(id).toMatch(/^[a-z][A-Za-z]{3,40}$/);
});

it('fills in nothing that may be left out', () => {
  type Parameter = { required?: boolean; example?: unknown; schema?: { example?: unknown } };
  const { paths } = JSON.parse(source) as { paths: Record<string, Record<string, { parameters?: Parameter[] }>> };
  const optional = Object.values(paths)
    .flatMap((methods) => Object.values(methods).flatMap(({ parameters = [] }) => parameters))
    .filter(({ required }) => required !== true);
  expect(optional.length).toBeGreaterThan(5);
  for (const { example, schema } of optional) expect([example, schema?.example]).toEqual([undefined, undefined]);
});
