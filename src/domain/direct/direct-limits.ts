// What a direct connection may take up, beside the limits that an operator moves (docs/limits.md).

export const directLimits = {
  /** The time for CONNECT, and for the rest of every later packet. */
  connectMs: 10_000,
  /** Connections of a device without CONNECT: beyond, the oldest is closed. */
  unconnectedPerDevice: 10,
  /** Messages with QoS 1 that the service takes at once (MQTT5 3.2.2.3.3). */
  receiveMaximum: 100,
  /** Packets that may come at once, before `directPacketsPerSecond` counts. */
  packetBurst: 1_000,
  /** Filters of a session, and their characters in all: the attachment of its socket has to hold them. */
  subscriptions: 20,
  filtersLength: 4_096,
  /** Messages with QoS 1 that the device has not acknowledged. */
  inFlight: 16,
  /** Bytes with QoS 0 that the device has not shown to be read: beyond, the session ends. */
  unreadBytes: 65_536,
  /** Packets of a device that does not wait for acknowledgements share a write if they come within this time. */
  gatherMs: 5,
} as const;
