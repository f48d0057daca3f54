// Hono's router, which remembers what it found for the newest short paths of the interface and of bridges: whoever follows a
// device asks for the same few again and again, and finding the handlers takes longer than calling them. Knows no route.
import type { Result } from 'hono/router';
import { TrieRouter } from 'hono/router/trie-router';
import { rememberNewest } from '../domain/newest.ts';

const maxPaths = 1_000;
const maxPathLength = 100;
/** Views, commands and batches of a bridge. */
const methods = ['GET', 'POST'];

// Others of Hono's cannot tell `/devices/transfers` from `/devices/:deviceId`: it would try them first at each start.
export class RememberingRouter<T> extends TrieRouter<T> {
  readonly #found = new Map<string, Result<T>>();

  override match(method: string, path: string): Result<T> {
    // Other paths hold secrets of claims and guests.
    const isAskedAgain = path.startsWith('/api/v1/') || path.startsWith('/bridge/');
    if (!isAskedAgain || path.length > maxPathLength || !methods.includes(method)) return super.match(method, path);
    const asked = `${method} ${path}`;
    const known = this.#found.get(asked);
    if (known !== undefined) return known;
    const found = super.match(method, path);
    rememberNewest(this.#found, asked, found, maxPaths);
    return found;
  }

  override add(method: string, path: string, handler: T): void {
    this.#found.clear();
    super.add(method, path, handler);
  }
}
