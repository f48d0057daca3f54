// Builds the reference's documents before the tests inside workerd, which serve them from public/ as the built Worker does.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export default function buildReference(): void {
  execFileSync(process.execPath, [fileURLToPath(new URL('../dev/build/reference.js', import.meta.url))]);
}
