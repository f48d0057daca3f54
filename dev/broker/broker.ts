// The local broker as a process: aedes behind TCP and TLS, settings from the environment. The Worker decides logins
// and topics and is told of every session. MQTT 3.1 and 3.1.1 only, everything in memory. It is for a laptop.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { Aedes, type Client } from 'aedes';
import { describeFailure } from '../../rig/clients/api.ts';
import { createJsonLog, requireSetting, runPart } from '../../rig/worker/part-process.ts';
import { mayUse, type TopicRight } from '../../src/domain/topic-rights.ts';
import { matchesFilter } from '../../src/domain/topics.ts';
import { createAdminServer, watchSessions } from './sessions.ts';
import { createWorkerHooks, type WorkerHooks } from './worker-hooks.ts';

/** A refused message goes there instead: nobody may subscribe under `$`. */
const refusedTopic = '$SYS/refused';
const lastReportsMs = 500;

const log = createJsonLog('broker');
const env = process.env;
const rights = new WeakMap<Client, TopicRight[]>();

runPart(log, async () => {
  const hooks = createWorkerHooks(requireSetting('WORKER_URL'), requireSetting('BROKER_HOOK_SECRET'), log);
  const aedes = await createBroker(hooks);
  const sessions = watchSessions(aedes, hooks);
  const host = env['BIND_HOST'] ?? '127.0.0.1';
  const admin = createAdminServer(sessions, requireSetting('BROKER_API_KEY'), requireSetting('BROKER_API_SECRET'));
  const servers: Server[] = [];
  const portOf = async (server: Server): Promise<number> => {
    servers.push(server);
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  };

  const { MQTT_TLS_PORT: tlsPort, TLS_CERT_FILE: certFile = '', TLS_KEY_FILE: keyFile = '' } = env;
  if (tlsPort !== undefined) {
    const tls = createTlsServer(
      { cert: readFileSync(certFile), key: readFileSync(keyFile), noDelay: true },
      aedes.handle,
    );
    // A client that does not trust the certificate hangs up.
    tls.on('tlsClientError', (_error, socket) => socket.destroy());
    await portOf(tls.listen(Number(tlsPort), host));
  }
  const tcp = createTcpServer({ noDelay: true }, aedes.handle);
  const ready = {
    mqttPort: await portOf(tcp.listen(Number(env['MQTT_PORT'] ?? 1883), host)),
    // Only the Worker calls it.
    adminPort: await portOf(admin.listen(Number(env['BROKER_ADMIN_PORT'] ?? 18083), '127.0.0.1')),
  };

  async function stop(): Promise<void> {
    for (const server of servers) server.close();
    sessions.endAll('broker_restart');
    await new Promise<void>((resolve) => aedes.close(resolve));
    await hooks.close(lastReportsMs);
  }
  return { ready, stop };
});

function createBroker(hooks: WorkerHooks): Promise<Aedes> {
  return Aedes.createBroker({
    // MQTT 3.1 allows 23 bytes, our client identifiers have up to 77 (field notes 36, 37).
    maxClientsIdLength: 1024,
    preConnect: (client, { protocolVersion }, done) => {
      if (protocolVersion === 5) {
        const hint = 'the local broker speaks MQTT 3.1 and 3.1.1; MQTT 5 is spoken on a direct connection address';
        log('warn', 'mqtt_version_refused', { address: addressOf(client), hint });
      }
      done(null, true);
    },
    authenticate: (client, username = '', password = Buffer.of(), done) => {
      const { id, version } = client;
      const peerhost = addressOf(client);
      const refuse = (returnCode: 2 | 3 | 4 | 5, reason: string) => {
        log(returnCode === 3 ? 'warn' : 'info', 'login_refused', { clientId: id, username, peerhost, reason });
        done(Object.assign(new Error(reason), { returnCode }), false);
      };
      hooks.askLogin({ clientid: id, username, password: password.toString(), peerhost, proto_ver: version }).then(
        (answer) => {
          if ('reason' in answer) refuse(answer.returnCode, answer.reason);
          else {
            rights.set(client, answer.rights);
            done(null, true);
          }
        },
        // Without an answer of the Worker nobody gets in.
        (error: unknown) => refuse(3, describeFailure(error)),
      );
    },
    authorizePublish: (client, packet, done) => {
      const { topic, retain: isRetained } = packet;
      if (client === null || !mayUse(rights.get(client) ?? [], { action: 'publish', topic, isRetained })) {
        // A device's client id is its name.
        if (client !== null) hooks.reportRefused({ username: client.id, topic, retain: isRetained });
        // MQTT 3.1.1 has no way to refuse, and aedes ends the connection on an error: like EMQX's default, acknowledge
        // and drop.
        Object.assign(packet, { topic: refusedTopic, retain: false, payload: Buffer.alloc(0) });
      }
      done(null);
    },
    authorizeSubscribe: (client, subscription, done) => {
      const isAllowed = mayUse(rights.get(client) ?? [], { action: 'subscribe', topic: subscription.topic });
      if (!isAllowed) log('warn', 'subscription_refused', { clientId: client.id, filter: subscription.topic });
      done(null, isAllowed ? subscription : null);
    },
    // aedes stores a refused filter of a persistent session beside the allowed ones, and would queue messages for it.
    authorizeForward: (client, packet) => {
      const isWanted = ({ action, topic }: TopicRight) => action === 'subscribe' && matchesFilter(topic, packet.topic);
      return rights.get(client)?.some(isWanted) === true ? packet : null;
    },
  });
}

function addressOf({ conn }: Client): string {
  return ('remoteAddress' in conn && conn.remoteAddress) || '';
}
