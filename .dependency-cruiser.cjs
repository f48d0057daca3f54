// Which room may import which. Rooms are folders; an arrow points from the file that imports to the file that is imported.

/** The Worker's layers, lowest first: a layer imports those before it, never those after it. */
const layers = ['domain', 'db', 'pacing', 'objects', 'services', 'http', 'routes'];
const after = (layer) => layers.slice(layers.indexOf(layer) + 1);

/** Everything of ours beside the Worker. */
const otherRooms = 'broker-bridge|mqtt-gateway|matter-bridge|node-service|client|console|dev|serve|rig|bench|test';

/** Files below `from` import nothing of ours but `allowed` (regular expressions of paths). */
const importsOnly = (name, from, allowed) => ({
  name,
  severity: 'error',
  from: { path: from },
  to: { path: `^(src|${otherRooms})/`, pathNot: allowed },
});

/** Files below `from` do not import `to`. */
const doesNotImport = (name, from, to) => ({ name, severity: 'error', from: { path: from }, to: { path: to } });

/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    ...layers
      .slice(0, -1)
      .map((layer) =>
        doesNotImport(
          `${layer}-calls-no-layer-above`,
          `^src/${layer}/`,
          `^src/(${[...after(layer), 'app', 'index'].join('|')})(/|\\.ts$)`,
        ),
      ),
    doesNotImport('routes-reach-storage-through-services', '^src/routes/', '^src/(db|objects)/'),
    importsOnly('protocol-imports-nothing-of-ours', '^src/protocol/', ['^src/protocol/']),
    importsOnly('domain-imports-the-protocol-only', '^src/domain/', ['^src/(domain|protocol)/']),
    importsOnly('crypto-stands-alone', '^src/crypto/', ['^src/crypto/', '^src/domain/(newest|refusal)\\.ts$']),
    importsOnly('log-stands-alone', '^src/log\\.ts$', []),

    // Inside of the objects: each kind is a room of its own, and they meet through the calls.
    doesNotImport('calls-know-no-object', '^src/objects/(calls|mqtt)/', '^src/objects/(device|home|relay)/'),
    doesNotImport('device-objects-call-others', '^src/objects/device/', '^src/objects/(home|relay|broker-link)/'),
    doesNotImport('homes-call-others', '^src/objects/home/', '^src/objects/(device|relay|broker-link)/'),
    doesNotImport('relay-objects-call-others', '^src/objects/relay/', '^src/objects/(device|home|broker-link)/'),
    doesNotImport('broker-links-call-others', '^src/objects/broker-link/', '^src/objects/(device|relay)/'),

    importsOnly('node-service-knows-no-service', '^node-service/', ['^node-service/']),
    importsOnly('bridge-imports-the-protocol-only', '^broker-bridge/', [
      '^broker-bridge/',
      '^node-service/',
      '^src/protocol/',
    ]),
    importsOnly('gateway-imports-what-its-container-has', '^mqtt-gateway/', [
      '^mqtt-gateway/',
      '^node-service/',
      '^src/protocol/',
      '^src/domain/(client-network|topics|direct/(answer-codes|connect))\\.ts$',
    ]),
    importsOnly('matter-bridge-uses-the-client', '^matter-bridge/', ['^(matter-bridge|node-service|client)/']),
    {
      name: 'matter-is-in-its-own-folder',
      severity: 'error',
      from: { pathNot: '^matter-bridge/' },
      to: { path: '(^|/)@matter/' },
    },
    {
      name: 'client-needs-only-types-of-the-service',
      severity: 'error',
      from: { path: '^client/src/' },
      to: { path: '^(src|broker-bridge|dev|rig|test)/', dependencyTypesNot: ['type-only'] },
    },
    importsOnly('console-uses-the-client-alone', '^console/', ['^(console|client)/']),
    doesNotImport(
      'product-code-imports-no-tests-or-dev-tools',
      '^(src|broker-bridge|mqtt-gateway|matter-bridge/src|node-service|client|console)/',
      '^((test|rig|dev|serve|bench)/|matter-bridge/test/)',
    ),
    // A server runs what `npm start` runs, and the terminal commands start nothing of it.
    importsOnly('serve-runs-the-parts', '^serve/', [
      '^(serve|node-service)/',
      '^dev/(local/(secrets|settings|state-dir|supervisor|suspend)|stopping|terminal)\\.ts$',
      '^rig/(services/(parts|processes)|worker/(built-worker|part-process)|clients/api|command-line|changes)\\.ts$',
      '^mqtt-gateway/src/certificate\\.ts$',
      '^src/(config|domain/json)\\.ts$',
    ]),
    doesNotImport('only-tests-import-a-server', '^(dev|rig|bench)/', '^serve/'),
    doesNotImport('only-tests-import-tests', '^(rig|dev|serve|bench)/', '^(test|matter-bridge/test)/'),
    doesNotImport('the-rig-is-below-the-benchmarks', '^rig/', '^bench/'),
    {
      name: 'no-circles',
      severity: 'error',
      from: { pathNot: '^src/domain/device/' },
      to: { circular: true },
    },
    // The type of a device's state is derived from the list of its slices, whose rules take that type.
    {
      name: 'no-circles-but-of-types',
      severity: 'error',
      from: { path: '^src/domain/device/' },
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.options.json' },
    enhancedResolveOptions: { extensions: ['.ts', '.js'] },
  },
};
