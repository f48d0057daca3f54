// What the tests inside workerd find beside the Worker's own bindings.
// Interfaces, because only they merge with the generated ones.
/* eslint-disable @typescript-eslint/consistent-type-definitions */
declare namespace Cloudflare {
  interface Env {
    TEST_MIGRATIONS: { name: string; queries: string[] }[];
  }
  interface GlobalProps {
    mainModule: typeof import('../../../src/index.ts');
  }
}
