// The Worker under test with other limits (docs/limits.md) or bindings. Asserts nothing.
import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test';
import { env } from 'cloudflare:workers';
import { createApp } from '../../../src/app.ts';
import { readAnswer, requestOf, type Answer, type CallOptions } from './clients/client.ts';

type Bindings = Partial<Record<keyof Env, unknown>>;

/** An isolate remembers by its environment: the same bindings are the same isolate. */
const environments = new WeakMap<Bindings, Env>();

/** As `call`, answered by a Worker whose setting `LIMITS` is `limits`. */
export function callLimited<T = never>(
  limits: string,
  method: string,
  path: string,
  options: CallOptions,
): Promise<Answer<T>> {
  return callWith({ LIMITS: limits }, method, path, options);
}

/** As `call`, answered by a Worker with these settings and bindings in place of its own; waits for its background work. */
export async function callWith<T = never>(
  bindings: Bindings,
  method: string,
  path: string,
  options: CallOptions = {},
): Promise<Answer<T>> {
  const execution = createExecutionContext();
  const answer = await readAnswer<T>(await sendWith(bindings, method, path, options, execution));
  await waitOnExecutionContext(execution);
  return answer;
}

/** As `send`, answered by such a Worker. */
export async function sendWith(
  bindings: Bindings,
  method: string,
  path: string,
  options: CallOptions = {},
  execution = createExecutionContext(),
): Promise<Response> {
  const changed = environments.get(bindings) ?? ({ ...env, ...bindings } as Env);
  environments.set(bindings, changed);
  return createApp().fetch(requestOf(method, path, options), changed, execution);
}

/** A limiter of `limit` uses a key. */
export function limiter(limit: number): RateLimit {
  const uses = new Map<string, number>();
  return {
    limit: ({ key }) => {
      uses.set(key, (uses.get(key) ?? 0) + 1);
      return Promise.resolve({ success: (uses.get(key) ?? 0) <= limit });
    },
  };
}

/** Bindings that note which objects of devices are called. */
export function countWoken() {
  const woken: string[] = [];
  const DEVICE_SESSION = {
    getByName(name: string) {
      woken.push(name);
      return env.DEVICE_SESSION.getByName(name);
    },
  };
  return { changed: { DEVICE_SESSION }, woken };
}
