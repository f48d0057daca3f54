// The only place that names Durable Objects. Stubs are made per call: they are cheap, and one that failed is broken.

export function deviceSession(env: Env, deviceId: string) {
  return env.DEVICE_SESSION.getByName(deviceId);
}

export function brokerLink(env: Env) {
  return env.BROKER_LINK.getByName('broker-main');
}

export function relayGateway(env: Env, shard: string) {
  return env.RELAY_GATEWAY.getByName(shard);
}

/** The shard of a client address; stable, so that one address does not wake them all. */
export function relayShardOf(address: string, shards: number): string {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(address)) hash = Math.imul(hash ^ byte, 0x01000193);
  return `relay-${(hash >>> 0) % shards}`;
}
