// The connection data of an activation result (contract 2.7, `mqtt`): of the broker, or of the gateway if there is no broker.
// The password is shown this once.
import type { Config } from '../../config.ts';
import { messagingName, type DeviceIdentity } from '../../domain/topics.ts';

export function describeConnection({ broker }: Config, device: DeviceIdentity, password: string) {
  const name = messagingName(device);
  return {
    server: broker.host,
    port: broker.port,
    portTLS: broker.tlsPort,
    username: name,
    password,
    clientId: name,
    keepAlive: broker.keepAliveSeconds,
  };
}
