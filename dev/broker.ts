// The local broker as a process: `node dev/broker.ts`, settings from the environment (below). Sends {type:'ready'} with
// its ports over IPC and ends when its parent does. Must not choose ports or secrets: the supervisor does.
import { startBroker } from './broker-server.ts';
import { createJsonLog } from './json-log.ts';

const log = createJsonLog('broker');

function requireSetting(name: string): string {
  const value = process.env[name];
  if (value === undefined || value === '') throw new Error(`${name} must be set`);
  return value;
}

try {
  const broker = await startBroker({
    workerUrl: requireSetting('WORKER_URL'),
    hookSecret: requireSetting('BROKER_HOOK_SECRET'),
    apiKey: requireSetting('BROKER_API_KEY'),
    apiSecret: requireSetting('BROKER_API_SECRET'),
    host: process.env['BIND_HOST'] ?? '127.0.0.1',
    mqttPort: Number(process.env['MQTT_PORT'] ?? 1883),
    wsPort: Number(process.env['MQTT_WS_PORT'] ?? 8083),
    adminPort: Number(process.env['BROKER_ADMIN_PORT'] ?? 18083),
    log,
  });
  const { mqttPort, wsPort, adminPort } = broker;
  log('info', 'ready', { mqttPort, wsPort, adminPort });
  process.send?.({ type: 'ready', mqttPort, wsPort, adminPort });

  let isStopping = false;
  const stop = () => {
    if (isStopping) return;
    isStopping = true;
    broker.close().then(
      () => process.exit(0),
      (error: unknown) => {
        log('error', 'cannot_stop', { error: String(error) });
        process.exit(1);
      },
    );
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  process.on('disconnect', stop);
} catch (error) {
  log('error', 'cannot_start', { error: error instanceof Error ? error.message : String(error) });
  process.exit(1);
}
