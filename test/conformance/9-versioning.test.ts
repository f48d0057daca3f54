// Contract section 9: the version in the path and the served reference as public validators and
// a browser see it.
import { readFileSync } from 'node:fs';
import { Parser } from '@asyncapi/parser';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { beforeAll, describe, expect, it } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { ask, bearer, service, signUp } from '../../rig/clients/conformance-client.ts';

const { version } = packageJson;

const read = async (path: string) => {
  const response = await fetch(`${service.url}${path}`);
  return { response, text: await response.text() };
};

it('the interface version is the prefix /api/v1, with one slash or two before it', async () => {
  const { token } = await signUp();
  expect(await ask('GET', '/api/v1/users/me', { headers: bearer(token) })).toMatchObject({ code: 200 });
  for (const path of ['//api/v1/users/me', '/api//v1/users/me']) {
    const response = await fetch(`${service.url}${path}`, { headers: bearer(token), redirect: 'error' });
    expect(response.status, path).toBe(200);
  }
});

describe('the served reference', () => {
  let openapi: Awaited<ReturnType<typeof read>>;
  let asyncapi: Awaited<ReturnType<typeof read>>;

  // Before a parser holds this process up for seconds: the server ends idle connections meanwhile.
  beforeAll(async () => {
    openapi = await read('/api/v1/openapi.json');
    asyncapi = await read('/api/v1/asyncapi.json');
  });

  it('is shown at /docs, every file of it from this server', async () => {
    const page = await read('/docs');
    expect(page.response.headers.get('Content-Type')).toContain('text/html');
    expect(page.response.headers.get('Content-Security-Policy')).toContain("default-src 'none'");
    const files = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path = '']) => path);
    expect(files).toContain('/docs/swagger-ui/swagger-ui-bundle.js');
    for (const path of files) {
      expect(path).toMatch(/^\//);
      expect((await read(path)).response.status, path).toBe(200);
    }
  });

  it('is valid OpenAPI 3.1, passes the rules of Redocly, and has the version of package.json and CHANGELOG', async () => {
    const { response, text } = openapi;
    expect(response.headers.get('Content-Type')).toBe('application/json');
    expect(JSON.parse(text)).toMatchObject({
      openapi: '3.1.0',
      info: { version },
      servers: [{ url: '/' }],
    });
    expect(/^## (.+)$/m.exec(readFileSync('CHANGELOG.md', 'utf8'))?.[1]).toBe(version);
    // The routes of the reference documents refuse nobody. The strict rule is what OpenAPI itself says of references.
    const rules = { 'spec-strict-refs': 'error', 'operation-4xx-response': 'off' } as const;
    const config = await createConfig({ extends: ['recommended'], rules });
    const problems = await lintFromString({ source: text, absoluteRef: '/openapi.json', config });
    expect(problems.map(({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer}`)).toEqual(
      [],
    );
  });

  it('passes the public AsyncAPI parser', async () => {
    const { text } = asyncapi;
    const { document, diagnostics } = await new Parser().parse(text);
    expect(diagnostics.map(({ message, path }) => `${path.join('.')}: ${message}`)).toEqual([]);
    expect(document?.info().version()).toBe(version);
    const { operations } = JSON.parse(text) as { operations: object };
    expect(document?.allOperations().all()).toHaveLength(Object.keys(operations).length);
  });
});
