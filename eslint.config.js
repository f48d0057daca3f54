// Type-aware lint for every TypeScript file, after `tsc -b`: what tests and tools import of src is read from .types. Formatting is Prettier's, layer arrows are dependency-cruiser's
// (.dependency-cruiser.cjs), unused exports are knip's.
import tseslint from 'typescript-eslint';

export default tseslint.config(
  {
    ignores: [
      'node_modules',
      '**/dist',
      '.wrangler',
      '.latchwork',
      '.types',
      'src/worker-env.d.ts',
      '**/*.js',
      '**/*.cjs',
      '**/*.mjs',
    ],
  },
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: {
      parserOptions: {
        project: [
          './tsconfig.json',
          './tsconfig.worker.json',
          './tsconfig.node.json',
          './tsconfig.client.json',
          './tsconfig.console.json',
        ],
        tsconfigRootDir: import.meta.dirname,
      },
    },
    rules: {
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/consistent-type-definitions': ['error', 'type'],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      eqeqeq: 'error',
      'no-console': 'off',
    },
  },
  {
    files: ['test/**'],
    rules: { '@typescript-eslint/no-non-null-assertion': 'off' },
  },
  {
    // A reason that is known is logged or thrown on. Tests may wait for nothing but a failure.
    files: [
      'src/**',
      'broker-bridge/**',
      'mqtt-gateway/**',
      'client/**',
      'console/**',
      'dev/**',
      'bench/**',
      'node-service/**',
      'rig/**',
      'test/worker/rig/**',
    ],
    ignores: ['**/*.test.ts'],
    rules: {
      '@typescript-eslint/no-floating-promises': ['error', { ignoreVoid: false }],
      'no-restricted-syntax': [
        'error',
        { selector: 'CatchClause[param=null]', message: 'Name the error and use it.' },
        {
          selector:
            "CallExpression[callee.property.name='catch'] > :matches(ArrowFunctionExpression, FunctionExpression)[params.length=0]",
          message: 'Take the error and use it.',
        },
      ],
    },
  },
);
