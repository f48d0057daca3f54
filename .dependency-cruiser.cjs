// Layer arrows of the architecture: a layer imports those below it, never one above.
const layers = ['domain', 'db', 'durable', 'services', 'routes'];
const above = (layer) => layers.slice(layers.indexOf(layer) + 1);

/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    ...layers.slice(0, -1).map((layer) => ({
      name: `${layer}-calls-no-layer-above`,
      severity: 'error',
      from: { path: `^src/${layer}/` },
      to: { path: `^src/(${[...above(layer), 'http'].join('|')}|app|index)(/|\\.ts$)` },
    })),
    {
      name: 'domain-imports-the-protocol-only',
      severity: 'error',
      from: { path: '^src/domain/' },
      to: { path: '^(src|broker-bridge|mqtt-gateway|dev|bench|test)/', pathNot: '^src/(domain|protocol)/' },
    },
    {
      name: 'protocol-imports-nothing-of-ours',
      severity: 'error',
      from: { path: '^src/protocol/' },
      to: { path: '^(src|broker-bridge|mqtt-gateway|dev|bench|test)/', pathNot: '^src/protocol/' },
    },
    {
      name: 'http-does-not-call-routes',
      severity: 'error',
      from: { path: '^src/http/' },
      to: { path: '^src/(routes|app|index)' },
    },
    {
      name: 'routes-reach-storage-through-services',
      severity: 'error',
      from: { path: '^src/routes/' },
      to: { path: '^src/(db|durable)/' },
    },
    {
      name: 'log-stands-alone',
      severity: 'error',
      from: { path: '^src/log\\.ts$' },
      to: { path: '^src/' },
    },
    {
      name: 'crypto-stands-alone',
      severity: 'error',
      from: { path: '^src/crypto/' },
      to: { path: '^src/', pathNot: '^src/(crypto/|domain/(newest|refusal)\\.ts$)' },
    },
    {
      name: 'bridge-imports-the-protocol-only',
      severity: 'error',
      from: { path: '^broker-bridge/' },
      to: { path: '^(src|mqtt-gateway|dev|test)/', pathNot: '^src/protocol/' },
    },
    {
      name: 'gateway-imports-what-its-container-has',
      severity: 'error',
      from: { path: '^mqtt-gateway/' },
      to: {
        path: '^(src|broker-bridge|dev|test)/',
        pathNot: [
          '^src/protocol/gateway\\.ts$',
          '^src/domain/client-network\\.ts$',
          '^broker-bridge/src/(environment|health|log)\\.ts$',
        ],
      },
    },
    {
      name: 'client-needs-only-types-of-the-service',
      severity: 'error',
      from: { path: '^client/src/' },
      to: { path: '^(src|broker-bridge|dev|test)/', dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'console-uses-the-client-alone',
      severity: 'error',
      from: { path: '^console/' },
      to: { path: '^(src|broker-bridge|mqtt-gateway)/' },
    },
    {
      name: 'product-code-imports-no-tests-or-dev-tools',
      severity: 'error',
      from: { path: '^(src|broker-bridge|mqtt-gateway|client|console)/' },
      to: { path: '^(test|dev|bench)/' },
    },
    {
      name: 'dev-and-bench-use-only-the-rig-of-the-tests',
      severity: 'error',
      from: { path: '^(dev|bench)/' },
      to: { path: '^test/', pathNot: '^test/rig/' },
    },
    {
      name: 'the-rig-imports-no-tests',
      severity: 'error',
      from: { path: '^test/rig/' },
      to: { path: '^test/(?!rig/)' },
    },
    { name: 'no-circles', severity: 'error', from: {}, to: { circular: true } },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { extensions: ['.ts', '.js'] },
  },
};
