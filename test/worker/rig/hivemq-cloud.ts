// HiveMQ Cloud's REST API as its documentation describes it, in memory, in the place of `fetch`: answers, records what
// it was asked, and fails on command. Written from the documentation, not from a cluster. Asserts nothing.
export const hivemqApiUrl = 'https://api.a01.euc1.aws.hivemq.test/api/v2/orgs/abc123/clusters/0b1c2d3e';
const basePath = new URL(hivemqApiUrl).pathname;

type Fields = Record<string, unknown>;
type Exchange = { method: string; url: string; headers: Headers; body: string };
/** `refused`: not done. `unanswered`: done, but the answer is lost. */
export type Failure = { atCall: number; how: 'refused' | 'unanswered' };

export class HivemqCloud {
  readonly exchanges: Exchange[] = [];
  readonly #credentials = new Map<string, { password: unknown; roleIds: Set<string> }>();
  readonly #roles = new Map<string, { role: Fields; permissionIds: Set<string> }>();
  readonly #permissions = new Map<string, Fields>();
  readonly #clients = new Map<string, { isConnected: boolean }>();
  #lastId = 0;
  /** Entries of a page, whatever was asked for, and how the next page is named. */
  pageSize = 500;
  nextLinkOf = (path: string) => `${basePath}${path}`;
  failure: Failure | undefined;
  /** Answers in place of this class where it returns a response. */
  override: ((method: string, path: string) => Response | undefined) | undefined;

  readonly fetch = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const request = new Request(input, init);
    const { method, url, headers } = request;
    const body = await request.text();
    this.exchanges.push({ method, url, headers, body });
    const { pathname, searchParams } = new URL(url);
    const path = pathname.slice(basePath.length);
    const fails = this.failure?.atCall === this.exchanges.length ? this.failure.how : undefined;
    if (fails === 'refused') return new Response(null, { status: 503 });
    const standIn = this.override?.(method, path);
    if (standIn !== undefined) return standIn;
    const answer = this.#answer(method, path, searchParams, body === '' ? {} : (JSON.parse(body) as Fields));
    if (fails === 'unanswered') throw new Error('connection reset');
    return answer;
  };

  /** Method, path below the cluster, and body, as they were sent. */
  asked(): string[] {
    return this.exchanges.map(({ method, url, body }) =>
      `${method} ${url.replace(hivemqApiUrl, '')} ${body}`.trimEnd(),
    );
  }

  /** Everything by name: ids depend on how often something was tried. */
  contents() {
    const nameOf = (id: string) => this.#permissions.get(id)?.['name'];
    return {
      credentials: [...this.#credentials].map(([username, { password, roleIds }]) => ({
        username,
        password,
        roles: [...roleIds].map((id) => this.#roles.get(id)?.role['name']),
      })),
      roles: [...this.#roles.values()].map(({ role, permissionIds }) => ({
        name: role['name'],
        permissions: [...permissionIds].map(nameOf).sort(),
      })),
      permissions: [...this.#permissions.values()].sort((a, b) => String(a['name']).localeCompare(String(b['name']))),
      clients: [...this.#clients].map(([id, { isConnected }]) => ({ id, isConnected })),
    };
  }

  connect(clientId: string): void {
    this.#clients.set(clientId, { isConnected: true });
  }

  addRole(name: string): void {
    this.#roles.set(String(++this.#lastId), { role: { name, description: '' }, permissionIds: new Set() });
  }

  #answer(method: string, path: string, query: URLSearchParams, body: Fields): Response {
    const [first, second, third = '', fourth = '', fifth = '', sixth = ''] = path
      .split('/')
      .slice(1)
      .map(decodeURIComponent);
    if (first === 'user')
      return this.#answerLink(this.#credentials.get(second ?? '')?.roleIds, fourth, this.#roles, fifth);
    const role = this.#roles.get(third);
    switch (`${method} ${second ?? ''}`) {
      case 'GET credentials': {
        const credential = this.#credentials.get(fourth);
        if (credential === undefined) return refusal(404);
        const roleRefs = [...credential.roleIds].map((roleId) => ({
          roleId,
          roleName: this.#roles.get(roleId)?.role['name'],
        }));
        return json(200, { credentials: [{ userInfo: { username: fourth, roleRefs } }] });
      }
      case 'POST credentials': {
        const { username, password } = body['credentials'] as { username: string; password: unknown };
        if (this.#credentials.has(username)) return refusal(409);
        this.#credentials.set(username, { password, roleIds: new Set() });
        return json(201, { credentials: { username, password } });
      }
      case 'DELETE credentials':
        return this.#credentials.delete(fourth) ? new Response(null, { status: 204 }) : refusal(404);
      case 'GET roles': {
        if (fourth === '') return this.#page(path, query, 'roles', this.#listRoles());
        if (role === undefined) return refusal(404);
        const attached = this.#listPermissions().filter(({ permissionInfo: { id } }) => role.permissionIds.has(id));
        return this.#page(path, query, 'permissions', attached);
      }
      case 'POST roles': {
        const given = body['role'] as Fields;
        if ([...this.#roles.values()].some((other) => other.role['name'] === given['name'])) return refusal(409);
        const id = String(++this.#lastId);
        this.#roles.set(id, { role: given, permissionIds: new Set() });
        return json(201, { roleInfo: { id, ...given } });
      }
      case 'PUT roles':
        return this.#answerLink(role?.permissionIds, fifth, this.#permissions, sixth);
      case 'DELETE roles':
        for (const { roleIds } of this.#credentials.values()) roleIds.delete(third);
        return this.#roles.delete(third) ? new Response(null, { status: 204 }) : refusal(404);
      case 'GET permissions':
        return this.#page(path, query, 'permissions', this.#listPermissions());
      case 'POST permissions': {
        const given = body['permission'] as Fields;
        if ([...this.#permissions.values()].some(({ name }) => name === given['name'])) return refusal(409);
        const id = String(++this.#lastId);
        this.#permissions.set(id, given);
        return json(201, { permissionInfo: { id, ...given, applyTo: 'ROLE' } });
      }
      case 'DELETE permissions': {
        if ([...this.#roles.values()].some(({ permissionIds }) => permissionIds.has(third))) return refusal(409);
        return this.#permissions.delete(third) ? new Response(null, { status: 204 }) : refusal(404);
      }
      case 'DELETE clients': {
        const client = this.#clients.get(third);
        if (client === undefined || (fourth === 'connection' && !client.isConnected)) return refusal(404);
        if (fourth === 'connection') client.isConnected = false;
        else this.#clients.delete(third);
        return new Response(null, { status: 204 });
      }
      default:
        return refusal(405);
    }
  }

  /** Attaches to, or detaches from, `links`. */
  #answerLink(
    links: Set<string> | undefined,
    id: string,
    targets: ReadonlyMap<string, unknown>,
    how: string,
  ): Response {
    if (links === undefined || !targets.has(id)) return refusal(404);
    if (how === 'attach') links.add(id);
    else if (!links.delete(id)) return refusal(404);
    return new Response(null, { status: 200 });
  }

  #listRoles() {
    return [...this.#roles].map(([id, { role }]) => ({ roleInfo: { id, ...role } }));
  }

  #listPermissions() {
    return [...this.#permissions].map(([id, fields]) => ({ permissionInfo: { id, ...fields } }));
  }

  #page(path: string, query: URLSearchParams, member: string, entries: object[]): Response {
    const from = Number(query.get('cursor') ?? 0);
    const to = from + this.pageSize;
    const links = to < entries.length ? { _links: { next: this.nextLinkOf(`${path}?cursor=${to}&limit=50`) } } : {};
    return json(200, { [member]: entries.slice(from, to), ...links });
  }
}

function json(status: number, body: object): Response {
  return new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json' } });
}

function refusal(status: number): Response {
  return json(status, { errors: [{ title: 'Refused', detail: `answered ${status}` }] });
}
