// The rules and the board of examples/monitoring name metrics that exist, and nothing else: Prometheus stays silent about others.
// Actions and container images are named by digest.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { promtoolMissing, runPromtool } from '../../../rig/promtool.ts';

const read = (path: string): string => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');

/** The services put their prefix before each name. */
const ofService = (prefix: string, paths: string[]) => {
  const names = paths.flatMap((path) => read(path).match(/\b[a-z]+(?:_[a-z]+)*\b/g) ?? []);
  return names.map((name) => `${prefix}_${name}`);
};
const exported = new Set([
  ...ofService('bridge', ['broker-bridge/src/metrics.ts', 'broker-bridge/src/bridge/bridge.ts']),
  ...ofService('gateway', ['mqtt-gateway/src/gateway.ts']),
  ...(read('src/services/operations/metrics.ts').match(/\blatchwork_[a-z_]+\b/g) ?? []),
]);

const metricsOf = (expressions: string[]) => {
  const names = expressions.flatMap((text) => text.match(/\b(bridge|gateway|latchwork)_[a-z_]+\b/g) ?? []);
  return new Set(names.map((name) => name.replace(/_bucket$/, '')));
};
const rules = [...read('examples/monitoring/alerts.yml').matchAll(/^ +- alert: (\w+)\n +expr: ([^]+?)\n +for:/gm)];

test('the alert rules ask for metrics that are exported', () => {
  expect(rules.length).toBeGreaterThan(20);
  const expressions = rules.map(([, , expression = '']) => expression);
  expect([...metricsOf(expressions)].filter((name) => !exported.has(name))).toEqual([]);
});

test('every alert has a situation in which it fires, and promtool finds that each does', ({ skip }) => {
  const situations = [...read('examples/monitoring/alerts.test.yml').matchAll(/^ {2}- name: '(\w+): /gm)];
  expect(new Set(situations.map(([, alert]) => alert))).toEqual(new Set(rules.map(([, alert]) => alert)));
  skip(promtoolMissing !== null, promtoolMissing ?? '');
  const folder = fileURLToPath(new URL('../../../examples/monitoring/', import.meta.url));
  expect(runPromtool(['check', 'rules', `${folder}alerts.yml`])).toMatchObject({ status: 0 });
  expect(runPromtool(['test', 'rules', `${folder}alerts.test.yml`])).toMatchObject({ status: 0 });
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

test.each([
  ['bridge-1', 'broker-bridge', 'latchwork-bridge.service'],
  ['gateway-1', 'mqtt-gateway', 'latchwork-mqtt-gateway.service'],
])('Prometheus asks %s where unit and container serve its metrics', (target, folder, unit) => {
  const port = new RegExp(`'${target}:(\\d+)'`).exec(read('docs/operations.md'))?.[1];
  expect(read(`${folder}/${unit}`)).toContain(`\nEnvironment=HEALTH_PORT=${port}\n`);
  expect(read(`${folder}/Dockerfile`)).toContain(`HEALTH_PORT=${port}\n`);
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
