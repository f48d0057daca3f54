// The local broker as a process: `node dev/broker/broker.ts`, settings from the environment (below). Must not choose ports or
// secrets: the supervisor does.
import { readFileSync } from 'node:fs';
import { createJsonLog, requireSetting, runPart } from '../../rig/worker/part-process.ts';
import { readBrokerLimits } from './limits.ts';
import { startBroker } from './server.ts';

const log = createJsonLog('broker');

runPart(log, () =>
  startBroker({
    workerUrl: requireSetting('WORKER_URL'),
    hookSecret: requireSetting('BROKER_HOOK_SECRET'),
    apiKey: requireSetting('BROKER_API_KEY'),
    apiSecret: requireSetting('BROKER_API_SECRET'),
    host: process.env['BIND_HOST'] ?? '127.0.0.1',
    mqttPort: Number(process.env['MQTT_PORT'] ?? 1883),
    wsPort: Number(process.env['MQTT_WS_PORT'] ?? 8083),
    adminPort: Number(process.env['BROKER_ADMIN_PORT'] ?? 18083),
    tls: readTls(process.env),
    limits: readBrokerLimits(process.env['BROKER_LIMITS'] ?? ''),
    log,
  }),
);

function readTls({ MQTT_TLS_PORT: port, TLS_CERT_FILE: certFile, TLS_KEY_FILE: keyFile }: NodeJS.ProcessEnv) {
  if (port === undefined || certFile === undefined || keyFile === undefined) return undefined;
  return { port: Number(port), cert: readFileSync(certFile), key: readFileSync(keyFile) };
}
