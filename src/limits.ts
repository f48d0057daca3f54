// Every limit of the Worker that an operator may move: what it counts, its default and range. `LIMITS` in wrangler.toml
// changes single limits. `npm run limits` copies the comments into docs/limits.md. Fixed sizes of the wire are in protocol/.

type LimitSpec = { default: number; min: number; max: number };

export const limitSpecs = {
  /** API keys of a user. Beyond: 400 `too_many_api_keys`. */
  apiKeysPerUser: { default: 20, min: 1, max: 1_000 },
  /** Webhooks of a user. Beyond: 400 `too_many_webhooks`. */
  webhooksPerUser: { default: 20, min: 1, max: 1_000 },
  /** Products of a user. Beyond: 400 `too_many_products`. */
  productsPerUser: { default: 200, min: 1, max: 100_000 },
  /** Devices of a product, disabled devices included. Beyond: 400 `too_many_devices` when a new serial number activates. */
  devicesPerProduct: { default: 100_000, min: 1, max: 10_000_000 },
  /** Serial numbers that are new to a product, in an hour of the clock. Beyond: 429 `too_many_requests` until the next hour. */
  newSerialsPerProductHour: { default: 10_000, min: 1, max: 1_000_000 },
  /** Members of a device; open invitations of a device. Beyond: 400 `too_many_members`. */
  membersPerDevice: { default: 20, min: 1, max: 200 },
  /** Open guest links of a device. Beyond: 400 `too_many_guest_links`. */
  guestLinksPerDevice: { default: 20, min: 1, max: 200 },
  /** Sessions of a user. Beyond: the session that was not used for the longest time ends. */
  sessionsPerUser: { default: 100, min: 1, max: 10_000 },
  /** Valid, unused claim tokens of a user. Beyond: 400 `too_many_claim_tokens`. */
  claimTokensPerUser: { default: 20, min: 1, max: 10_000 },
  /** Devices that a user offers to other users. Beyond: 400 `too_many_transfers`. */
  transferOffersPerUser: { default: 50, min: 1, max: 10_000 },
  /** Wrong passwords for an account, from all addresses, before the account waits. Beyond: 429 `too_many_requests` for 5 s after each further wrong password. */
  loginFreeAttemptsPerDay: { default: 1_000, min: 1, max: 1_000_000 },
  /** Reads and commands of a user in a second, by isolate. Beyond: the request waits up to 2 s, then 429 `too_many_requests`. */
  userRequestsPerSecond: { default: 100, min: 1, max: 100_000 },
  /** Requests of a user that write to the database in a second, by isolate. Beyond: the request waits up to 2 s, then 429 `too_many_requests`. */
  userWritesPerSecond: { default: 20, min: 1, max: 100_000 },
  /** Changes of a product that its devices have to learn. Beyond: 429 `too_many_requests`. */
  productChangesPerMinute: { default: 20, min: 1, max: 10_000 },
  /** Relay sockets of a client address. Beyond: 429 `too_many_requests`, `Retry-After: 10`. */
  relaySocketsPerAddress: { default: 1_000, min: 1, max: 30_000 },
  /** Relay sockets of a user on a relay shard. Beyond: the oldest socket is closed with 1008. */
  relaySocketsPerUser: { default: 100, min: 1, max: 30_000 },
  /** Relay sockets of a relay shard; the platform ends at 32 768. Beyond: 429 `too_many_requests`, `Retry-After: 10`. */
  relaySocketsPerShard: { default: 10_000, min: 1, max: 30_000 },
  /** Frames that a relay socket sends in a second, after a burst of 300. Beyond: the socket is closed with 1008. */
  relayFramesPerSecond: { default: 20, min: 1, max: 100_000 },
  /** Bytes that a relay socket was sent and has not read. Beyond: the socket is closed with 1013. */
  relayUnreadBytesPerSocket: { default: 4_194_304, min: 262_144, max: 67_108_864 },
  /** Seconds for which a device relies on what it was told about subscriptions to all devices. Beyond: it asks again with its next message. */
  fleetLeaseSeconds: { default: 86_400, min: 1, max: 2_592_000 },
  /** Packets that a direct connection sends in a second, after a burst of 1 000. Beyond: the session ends as `too_many_packets`. */
  directPacketsPerSecond: { default: 50, min: 1, max: 1_000_000 },
  /** Bytes of a packet on a direct connection. Beyond: the session ends as `packet_too_large`. */
  directPacketBytes: { default: 65_536, min: 1_024, max: 262_144 },
  /** Direct connections of a client address before their CONNECT. Beyond: 429 `too_many_requests`. */
  directUnconnectedPerAddress: { default: 100, min: 1, max: 30_000 },
  /** Time between two checks whether a silent direct connection still lives. Beyond: the check asks the connection. */
  directWatchSeconds: { default: 300, min: 10, max: 86_400 },
  /** Time in which a device may come back after its direct connection was lost. Beyond: the device is offline. */
  directReconnectGraceSeconds: { default: 30, min: 0, max: 3_600 },
  /** Messages of a device; a minute’s worth may come at once. Beyond: the newest value of each property is applied within a second, the rest is dropped; an event `flooded`. */
  deviceMessagesPerMinute: { default: 600, min: 1, max: 10_000_000 },
  /** Time without a message in which a session that the broker reported counts. Beyond: the device is offline, reason `silence`. */
  sessionSilenceHours: { default: 24, min: 1, max: 720 },
  /** Time in which a device has to return after its broker forgot its sessions. Beyond: the device is offline, reason `unconfirmed`. */
  brokerRestartGraceSeconds: { default: 300, min: 10, max: 3_600 },
  /** Time for which a pairing window of a device is open. Beyond: 403 `reactivation_not_allowed`. */
  pairingWindowSeconds: { default: 900, min: 10, max: 86_400 },
  /** Devices of a product that learn a change of the product in a second. Beyond: the other devices learn it later. */
  productDevicesPerSecond: { default: 200, min: 1, max: 100_000 },
  /** Events that a webhook receives in a second. Beyond: they wait in the device. */
  webhookDeliveriesPerSecond: { default: 10, min: 1, max: 10_000 },
  /** Writes of presence into the device lists in a second, of all devices. Beyond: lists lag, status views do not. */
  projectionsPerSecond: { default: 500, min: 1, max: 100_000 },
} as const satisfies Record<string, LimitSpec>;

type LimitName = keyof typeof limitSpecs;
export type Limits = Readonly<Record<LimitName, number>>;

/** Reads `name=value,name=value`. A limit that is not named keeps its default; `onProblem` learns of each wrong part. */
export function readLimits(text: string, onProblem: (problem: string) => void): Limits {
  const limits: Record<string, number> = {};
  for (const [name, spec] of Object.entries(limitSpecs)) limits[name] = spec.default;
  for (const part of text.split(',').map((entry) => entry.trim())) {
    if (part === '') continue;
    const [name = '', digits = ''] = part.split('=', 2);
    const spec = Object.hasOwn(limitSpecs, name) ? limitSpecs[name as LimitName] : undefined;
    const value = /^\d+$/.test(digits) ? Number(digits) : Number.NaN;
    if (spec === undefined) {
      onProblem(`has no limit "${name}"; docs/limits.md lists them`);
    } else if (!(value >= spec.min && value <= spec.max)) {
      onProblem(`${name} is a whole number from ${spec.min} to ${spec.max}`);
    } else {
      limits[name] = value;
    }
  }
  return limits as Limits;
}
