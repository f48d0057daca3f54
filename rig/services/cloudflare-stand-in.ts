// A stand-in for Cloudflare's API, written from what wrangler asks: wrangler is the real one, Cloudflare is not. It keeps Workers,
// their secrets, names of buckets and databases (real SQLite) in memory. It runs no Worker, and shows nothing about Cloudflare's own checks.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { DatabaseSync } from 'node:sqlite';
import { LoopbackServer } from '../loopback-server.ts';

type Binding = { type: string; name: string; text?: string; id?: string; namespace_id?: string; bucket_name?: string };
type Worker = { bindings: Binding[]; secrets: Map<string, string>; uploads: number };
type Query = { sql: string; params?: string[] };
class Refusal extends Error {
  readonly status: number;
  readonly code: number;
  constructor(status: number, code: number, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export const token = 'a-token-of-the-stand-in-that-is-long-enough';
const account = { id: 'a'.repeat(32), name: 'Stand-in' };
/** So long that no name server knows it: the doctor finds nothing there. */
export const subdomain = 's'.repeat(64);
const prefix = `/accounts/${account.id}`;

export class CloudflareStandIn extends LoopbackServer {
  readonly workers = new Map<string, Worker>();
  readonly databases = new Map<string, { uuid: string; name: string; db: DatabaseSync }>();
  readonly buckets = new Set<string>();
  /** What wrangler asked for and this does not know. */
  readonly unknown: string[] = [];
  /** Uploads of Workers fail while it is set. */
  isOutOfOrder = false;

  private constructor() {
    super(createServer((request, response) => void this.#answer(request, response)));
  }

  static start(): Promise<CloudflareStandIn> {
    return new CloudflareStandIn().listen();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? '', this.url);
    const body = await buffer(request);
    try {
      if (request.headers.authorization !== `Bearer ${token}`) throw new Refusal(401, 10_000, 'Authentication error');
      const result = this.#resultOf(`${request.method ?? ''} ${pathname.replace(prefix, '')}`, body);
      response.end(JSON.stringify({ success: true, errors: [], messages: [], result }));
    } catch (error) {
      const { status, code, message } = error instanceof Refusal ? error : new Refusal(400, 7500, String(error));
      response.writeHead(status);
      response.end(JSON.stringify({ success: false, errors: [{ code, message }], messages: [], result: null }));
    }
  }

  #resultOf(asked: string, body: Buffer): unknown {
    const [, method = '', subject = '', name = '', rest = ''] =
      /^(\w+) \/(d1\/database|r2\/buckets|workers\/(?:scripts|services|workers)|[\w/]+)(?:\/([\w-]+))?(\/.+)?$/.exec(
        asked,
      ) ?? [];
    if (subject === 'd1/database') return this.#database(method, name, rest, body);
    const worker = this.workers.get(name);
    if (subject.startsWith('workers/') && worker === undefined && method === 'GET' && name !== '')
      throw new Refusal(
        404,
        subject === 'workers/scripts' ? 10_007 : 10_090,
        'This Worker does not exist on your account.',
      );
    switch (`${method} ${subject}${rest}`) {
      case 'GET user/tokens/verify':
        return { id: 'token', status: 'active' };
      case 'GET user':
        return { id: 'user', email: 'operator@example.com' };
      case 'GET memberships':
      case 'GET accounts':
        return [{ ...account, account, status: 'accepted' }];
      case 'GET workers/services':
        return { default_environment: { script: { tag: name, tags: [], last_deployed_from: 'wrangler' } } };
      case 'GET workers/scripts/settings':
        return { bindings: worker?.bindings };
      case 'GET workers/scripts/secrets':
        return [...(worker?.secrets.keys() ?? [])].map((secret) => ({ name: secret, type: 'secret_text' }));
      case 'GET workers/scripts/deployments':
        return { deployments: [] };
      case 'POST workers/scripts/assets-upload-session':
        // Of files that are all there.
        return { jwt: 'of-the-stand-in', buckets: [] };
      case 'PUT workers/scripts':
        return this.#upload(name, body);
      case 'GET workers/subdomain':
        return { subdomain };
      case 'GET workers/workers':
        return { subdomain: { enabled: true, previews_enabled: false } };
      case 'POST workers/scripts/subdomain':
        return { enabled: true, previews_enabled: false };
      case 'POST workers/scripts/domains/changeset':
        return { added: [], removed: [], updated: [], conflicting: [] };
      case 'GET r2/buckets':
        if (!this.buckets.has(name)) throw new Refusal(404, 10_006, 'The specified bucket does not exist.');
        return { name };
      case 'POST r2/buckets':
        return this.#makeBucket(body);
      case 'PUT workers/scripts/domains/records':
      case 'PUT workers/scripts/schedules':
      case 'PATCH workers/scripts/script-settings':
        return {};
    }
    this.unknown.push(`${asked} ${body.toString('utf8', 0, 300)}`);
    throw new Refusal(404, 10_000, `the stand-in does not know ${asked}`);
  }

  #upload(name: string, body: Buffer): unknown {
    if (this.isOutOfOrder) throw new Refusal(403, 10_013, 'out of order');
    const [, metadata = ''] = /name="metadata"[^]*?\r\n\r\n(.*?)\r\n/.exec(body.toString('latin1')) ?? [];
    const { bindings: asked } = JSON.parse(metadata) as { bindings: Binding[] };
    const before = this.workers.get(name) ?? { bindings: [], secrets: new Map<string, string>(), uploads: 0 };
    const bindings = asked.map((binding) => {
      const inherited = before.bindings.find((row) => row.name === binding.name);
      if (binding.type !== 'inherit') return binding;
      if (inherited === undefined) throw new Refusal(400, 10_056, `inherit binding '${binding.name}' is invalid`);
      return inherited;
    });
    const secrets = new Map(before.secrets);
    for (const { type, name: secret, text = '' } of bindings) if (type === 'secret_text') secrets.set(secret, text);
    this.workers.set(name, { bindings, secrets, uploads: before.uploads + 1 });
    return { id: name, deployment_id: '0'.repeat(32), startup_time_ms: 1 };
  }

  #makeBucket(body: Buffer): unknown {
    const { name } = JSON.parse(body.toString()) as { name: string };
    if (this.buckets.has(name))
      throw new Refusal(409, 10_004, 'The bucket you tried to create already exists, and you own it.');
    this.buckets.add(name);
    return { name };
  }

  #database(method: string, name: string, rest: string, body: Buffer): unknown {
    const found = [...this.databases.values()].find((row) => row.name === name || row.uuid === name);
    if (method === 'GET' && name === '') return [...this.databases.values()].map(({ uuid, name }) => ({ uuid, name }));
    const input = JSON.parse(body.toString() || '{}') as Query & { name: string; batch?: Query[] };
    if (method === 'POST' && name === '') {
      const uuid = crypto.randomUUID();
      this.databases.set(input.name, { uuid, name: input.name, db: new DatabaseSync(':memory:') });
      return { uuid, name: input.name };
    }
    if (found === undefined) throw new Refusal(404, 7404, 'The database could not be found');
    if (rest !== '/query') return { uuid: found.uuid, name: found.name };
    return run(found.db, input);
  }
}

function run(db: DatabaseSync, { sql, params = [] }: Query): unknown {
  const text = sql.trim();
  const isRead = /^(select|pragma)/i.test(text);
  const results = isRead ? db.prepare(text).all(...params) : (db.exec(text), []);
  return [{ results, success: true, meta: { duration: 0 } }];
}
