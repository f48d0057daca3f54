// The rules and the board of examples/monitoring name metrics that exist, and nothing else: Prometheus stays silent about others.
// Actions and container images are named by digest.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const read = (path: string): string => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');

const bridge = ['broker-bridge/src/metrics.ts', 'broker-bridge/src/bridge/bridge.ts'].map(read).join('\n');
const exported = new Set([
  // The bridge puts its prefix before each name.
  ...(bridge.match(/\b[a-z]+(?:_[a-z]+)*\b/g) ?? []).map((name) => `bridge_${name}`),
  ...(read('src/services/operations/metrics.ts').match(/\blatchwork_[a-z_]+\b/g) ?? []),
]);

const metricsOf = (expressions: string[]) =>
  new Set(expressions.flatMap((text) => text.match(/\b(bridge|latchwork)_[a-z_]+\b/g) ?? []));

test('the alert rules ask for metrics that are exported', () => {
  const rules = [...read('examples/monitoring/alerts.yml').matchAll(/^ +expr: (.+)$/gm)].map(
    ([, expression = '']) => expression,
  );
  expect(rules.length).toBeGreaterThan(8);
  expect([...metricsOf(rules)].filter((name) => !exported.has(name))).toEqual([]);
});

test('every alert says what to do', () => {
  const text = read('examples/monitoring/alerts.yml');
  const count = (pattern: RegExp) => [...text.matchAll(pattern)].length;
  expect(count(/- alert: Latchwork\w+$/gm)).toBe(count(/^ +description: .+\.$/gm));
});

test('the panels of the board ask for metrics that are exported, each in a place of its own', () => {
  const board = JSON.parse(read('examples/monitoring/grafana.json')) as {
    panels: { gridPos: { x: number; y: number }; targets: { expr: string }[] }[];
  };
  const expressions = board.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
  expect(expressions.length).toBeGreaterThan(10);
  expect([...metricsOf(expressions)].filter((name) => !exported.has(name))).toEqual([]);
  const places = board.panels.map(({ gridPos }) => `${gridPos.x},${gridPos.y}`);
  expect(new Set(places).size).toBe(places.length);
});

test('no action and no container image may be exchanged under its tag', () => {
  const files = [
    '.github/workflows/ci.yml',
    'broker-bridge/Dockerfile',
    'mqtt-gateway/Dockerfile',
    'broker-bridge/compose.yaml',
  ];
  const named = files.flatMap((file) =>
    [...read(file).matchAll(/^.*?(?:uses:|FROM|image:) (\S+)/gm)].map(([, name]) => name),
  );
  expect(named).toHaveLength(7);
  expect(named.filter((name = '') => !/@(?:[0-9a-f]{40}|sha256:[0-9a-f]{64})$/.test(name))).toEqual([]);
});
