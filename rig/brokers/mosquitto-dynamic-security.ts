// mosquitto with its dynamic security plugin, set up with the files in broker-bridge/examples.
import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { dirname } from 'node:path';
import { makeCertificates } from '../certificates.ts';
import { findFreePort } from '../ports.ts';
import { readExample } from './broker-examples.ts';
import { Mosquitto, mosquittoMissing } from './mosquitto.ts';

const plugin = globSync('/usr/lib/*/mosquitto_dynamic_security.so')[0];
const administratorPassword = 'password-of-the-broker-administrator';

/** Why tests with dynamic security are skipped here, or null if it is installed. */
export const dynamicSecurityMissing =
  mosquittoMissing ?? (plugin === undefined ? 'mosquitto has no dynamic security plugin here' : null);

export async function startDynamicMosquitto(
  port: number,
  bridge: { clientId: string; password: string },
  user?: 'mosquitto',
): Promise<Mosquitto> {
  let dataDir = {};
  const tlsPort = await findFreePort();
  const { serverCert, serverKey } = makeCertificates('mqtt.test');
  const configure = (dir: string): string => {
    dataDir = { '/var/lib/mosquitto/': `${dir}/` };
    // Where it runs as the user of the tests, the file stays theirs.
    const script = {
      ...dataDir,
      ADMIN_PASSWORD: administratorPassword,
      ...(user === undefined && { chown: ': chown' }),
    };
    run(readExample('mosquitto/before-first-start.sh', script));
    if (user !== undefined)
      run(`chmod 711 '${dirname(dir)}'; chown ${user}: '${dir}' '${dirname(serverKey)}' '${serverKey}'`);
    return readExample('mosquitto/mosquitto.conf', {
      'listener 8883': `listener ${tlsPort} 127.0.0.1`,
      '/etc/mosquitto/certs/fullchain.pem': serverCert,
      '/etc/mosquitto/certs/privkey.pem': serverKey,
      'listener 1883 127.0.0.1': `listener ${port} 127.0.0.1`,
      '/usr/lib/x86_64-linux-gnu/mosquitto_dynamic_security.so': plugin ?? '',
      ...dataDir,
    });
  };
  const broker = await Mosquitto.launch(port, configure, user);
  const values = {
    '-p 1883': `-p ${port}`,
    ADMIN_PASSWORD: administratorPassword,
    BRIDGE_CLIENT_ID: bridge.clientId,
    BRIDGE_MQTT_PASSWORD: bridge.password,
    ...dataDir,
  };
  run(readExample('mosquitto/bridge-account.sh', values));
  return broker;
}

/** What the plugin prints about a client. */
export function describeClient(broker: Mosquitto, username: string): string {
  return control(broker, `getClient '${username}'`);
}

/** As if the broker had lost it. */
export function deleteClient(broker: Mosquitto, username: string): void {
  control(broker, `deleteClient '${username}'`);
}

function control({ port }: Mosquitto, command: string): string {
  return run(`mosquitto_ctrl -h 127.0.0.1 -p ${port} -u admin -P ${administratorPassword} dynsec ${command}`);
}

function run(script: string): string {
  const { status, stdout, stderr } = spawnSync('sh', ['-e', '-c', script], { encoding: 'utf8' });
  if (status !== 0 || /error/i.test(stderr)) throw new Error(`setting mosquitto up: ${stderr}`);
  return stdout;
}
