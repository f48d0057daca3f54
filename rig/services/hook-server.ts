// Stands in for the Worker at the hooks of the local broker. It accepts any device whose password is "right", gives it
// rights on its own topics, and remembers each event. Asserts nothing.
import { createServer } from 'node:http';
import { LoopbackServer } from '../loopback-server.ts';

export const hookServerSecret = 'hook-secret-of-the-local-broker-test';
type HookRequest = { clientid: string; username: string; password: string; proto_ver: number };
type BrokerEvent = {
  event: string;
  clientid: string;
  username: string;
  connected_at: number;
  disconnected_at?: number;
  reason?: string;
};
export class HookServer extends LoopbackServer {
  readonly events: BrokerEvent[] = [];
  readonly logins: HookRequest[] = [];
  /** Publishes that the broker refused. */
  readonly refused: object[] = [];
  isDown = false;

  private constructor() {
    const server = createServer((request, response) => {
      let body = '';
      request.on('data', (chunk: Buffer) => (body += chunk.toString()));
      request.on('end', () => {
        const { status, answer } = this.answer(request.url ?? '', request.headers.authorization, body);
        response.writeHead(status, { 'content-type': 'application/json' }).end(answer);
      });
    });
    super(server);
  }

  static start(): Promise<HookServer> {
    return new HookServer().listen();
  }

  answer(path: string, authorization: string | undefined, body: string): { status: number; answer?: string } {
    if (this.isDown) return { status: 503 };
    if (authorization !== `Bearer ${hookServerSecret}`) return { status: 401 };
    if (path === '/hooks/emqx/events') {
      this.events.push(JSON.parse(body) as BrokerEvent);
      return { status: 204 };
    }
    if (path === '/hooks/emqx/authz') {
      this.refused.push(JSON.parse(body) as object);
      return { status: 200, answer: '{"result":"deny"}' };
    }
    const login = JSON.parse(body) as HookRequest;
    this.logins.push(login);
    return { status: 200, answer: JSON.stringify(decide(login)) };
  }

  eventsOf(clientId: string): string[] {
    const own = this.events.filter((event) => event.clientid === clientId);
    return own.map(({ event, reason }) => (reason === undefined ? event : `${event} ${reason}`));
  }
}

function decide({ clientid, username, password }: HookRequest) {
  const deny = (message: string) => ({ result: 'deny', is_superuser: false, message });
  if (username === 'nobody') return deny('device_not_found');
  if (clientid !== username) return deny('invalid_client_id');
  if (password !== 'right') return deny('invalid_password');
  const root = topicRoot(username);
  const allow = (action: string, topic: string, more = {}) => ({ permission: 'allow', action, topic, ...more });
  return {
    result: 'allow',
    is_superuser: false,
    acl: [
      allow('publish', `eq ${root}/thing/event/property/post`, { retain: false }),
      allow('publish', `eq ${root}/status`),
      allow('publish', `eq ${root}/thing/service/property/set`),
      allow('subscribe', `${root}/#`),
      { permission: 'deny', action: 'all', topic: '#' },
    ],
  };
}

export function topicRoot(username: string): string {
  return `/sys/${username.replace('&', '/')}`;
}
