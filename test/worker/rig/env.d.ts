// Bindings of the tests inside workerd beside those of the Worker.
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
