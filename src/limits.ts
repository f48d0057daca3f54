// Every limit of the Worker that an operator may move: its name, default and range. `LIMITS` in wrangler.toml changes
// single ones; docs/limits.md lists them, and a test compares the two. Fixed sizes of the wire are in protocol/.

type LimitSpec = { default: number; min: number; max: number };

export const limitSpecs = {
  sessionSilenceHours: { default: 24, min: 1, max: 720 },
  brokerRestartGraceSeconds: { default: 300, min: 10, max: 3_600 },
  presenceChecksPerMinute: { default: 800, min: 1, max: 10_000 },
  objectAnswerMs: { default: 3_000, min: 100, max: 10_000 },
  apiKeysPerUser: { default: 20, min: 1, max: 1_000 },
  productsPerUser: { default: 200, min: 1, max: 100_000 },
  productKeysPerUser: { default: 1_000, min: 1, max: 1_000_000 },
  membersPerDevice: { default: 20, min: 1, max: 200 },
  invitationDays: { default: 7, min: 1, max: 90 },
  guestLinksPerDevice: { default: 20, min: 1, max: 200 },
  guestGuessesPerAddressMinute: { default: 20, min: 1, max: 1_000_000 },
  guestLinkUses: { default: 1_000, min: 1, max: 1_000_000 },
  guestLinkDays: { default: 30, min: 1, max: 3_650 },
  deviceGuestUsesPerMinute: { default: 20, min: 1, max: 60_000 },
  devicesPerProduct: { default: 100_000, min: 1, max: 10_000_000 },
  newSerialsPerProductHour: { default: 10_000, min: 1, max: 1_000_000 },
  devicesPerDeletion: { default: 100, min: 1, max: 400 },
  searchedDevices: { default: 500, min: 10, max: 10_000 },
  pagedDevices: { default: 10_000, min: 100, max: 1_000_000 },
  reconcileEveryDays: { default: 30, min: 1, max: 3_650 },
  recordsPerReconciliation: { default: 100, min: 1, max: 400 },
  expiredRowsPerMinute: { default: 5_000, min: 1, max: 100_000 },
  loginFreeAttempts: { default: 5, min: 1, max: 100 },
  loginFreeAttemptsPerDay: { default: 50_000, min: 1, max: 1_000_000 },
  loginMaxDelaySeconds: { default: 900, min: 1, max: 86_400 },
  loginCommonDelaySeconds: { default: 5, min: 1, max: 60 },
  loginDevicesPerUser: { default: 20, min: 1, max: 1_000 },
  passwordStepPauseMs: { default: 30, min: 0, max: 1_000 },
  passwordHashPauseMs: { default: 100, min: 0, max: 10_000 },
  passwordHashBurst: { default: 2, min: 1, max: 1_000 },
  passwordHashesPerMinute: { default: 20, min: 1, max: 100_000 },
  passwordHashQueue: { default: 8, min: 1, max: 1_000 },
  rememberedLoginAddresses: { default: 10_000, min: 1, max: 100_000 },
  strangerPauseMs: { default: 100, min: 0, max: 10_000 },
  strangerQueue: { default: 100, min: 1, max: 1_000 },
  passwordResetsPerHour: { default: 3, min: 1, max: 100 },
  passwordResetMinutes: { default: 30, min: 5, max: 1_440 },
  sessionsPerUser: { default: 100, min: 1, max: 10_000 },
  userRequestBurst: { default: 30, min: 1, max: 100_000 },
  userRequestsPerSecond: { default: 100, min: 1, max: 100_000 },
  userWriteBurst: { default: 10, min: 1, max: 100_000 },
  userWritesPerSecond: { default: 20, min: 1, max: 100_000 },
  userRequestWaitMs: { default: 2_000, min: 0, max: 60_000 },
  requestBodySeconds: { default: 10, min: 1, max: 600 },
  healthCacheMs: { default: 3_000, min: 100, max: 60_000 },
  refusalBurst: { default: 20, min: 1, max: 1_000_000 },
  refusalsPerSecond: { default: 100, min: 1, max: 1_000_000 },
  openingBurst: { default: 50, min: 1, max: 1_000_000 },
  openingsPerSecond: { default: 50, min: 1, max: 1_000_000 },
  refusalDelayMs: { default: 1_000, min: 0, max: 10_000 },
  delayedRefusals: { default: 200, min: 1, max: 10_000 },
  rememberedDeviceNames: { default: 10_000, min: 1, max: 100_000 },
  oldPasswordFailuresPerMinute: { default: 120, min: 0, max: 1_000_000 },
  oldPasswordFailuresPerAddressMinute: { default: 20, min: 1, max: 1_000_000 },
  rememberedApiKeys: { default: 1_000, min: 1, max: 100_000 },
  // A client's first bytes must fit before it can show that it reads: see objects/relay/census.ts.
  relayUnreadBytesPerSocket: { default: 4_194_304, min: 262_144, max: 67_108_864 },
  relayUnreadBytesPerAddress: { default: 16_777_216, min: 262_144, max: 67_108_864 },
  relayUnreadBytesPerShard: { default: 50_331_648, min: 262_144, max: 67_108_864 },
  relayUnauthenticatedPerAddress: { default: 100, min: 1, max: 30_000 },
  relayUnauthenticatedPerShard: { default: 2_000, min: 1, max: 30_000 },
  relaySocketsPerAddress: { default: 1_000, min: 1, max: 30_000 },
  // The platform refuses the 32 769th socket of an object.
  relaySocketsPerShard: { default: 10_000, min: 1, max: 30_000 },
  relaySocketsPerUser: { default: 100, min: 1, max: 30_000 },
  relaySocketsPerDevice: { default: 20, min: 1, max: 30_000 },
  relayFrameBurst: { default: 300, min: 1, max: 100_000 },
  relayFramesPerSecond: { default: 20, min: 1, max: 100_000 },
  relayBlockSeconds: { default: 30, min: 1, max: 3_600 },
  relayRecheckMinutes: { default: 60, min: 1, max: 1_440 },
  relayClientFrameBurst: { default: 2_000, min: 1, max: 100_000 },
  relayClientFramesPerSecond: { default: 100, min: 1, max: 100_000 },
  pairingWindowSeconds: { default: 900, min: 10, max: 86_400 },
  bulkQueue: { default: 4, min: 1, max: 1_000 },
  bulkQueuePerUser: { default: 1, min: 1, max: 1_000 },
  bulkPauseMs: { default: 100, min: 0, max: 10_000 },
  serialsPerImport: { default: 1_000, min: 1, max: 5_000 },
  claimTokensPerUser: { default: 20, min: 1, max: 10_000 },
  transferOffersPerUser: { default: 50, min: 1, max: 10_000 },
  transferOfferDays: { default: 7, min: 1, max: 90 },
  passwordsInUsePerDevice: { default: 10, min: 3, max: 100 },
  relayRememberedDevices: { default: 20_000, min: 100, max: 200_000 },
  relaySnapshotDevices: { default: 1_000, min: 1, max: 10_000 },
  // One invocation may call 1 000 objects.
  fleetToldDevices: { default: 800, min: 1, max: 950 },
  fleetUntoldDevices: { default: 10, min: 0, max: 800 },
  fleetToldHours: { default: 24, min: 1, max: 720 },
  fleetKeptSeconds: { default: 60, min: 1, max: 3_600 },
  fleetLeaseMs: { default: 1_000, min: 100, max: 10_000 },
  fleetDirectories: { default: 1, min: 1, max: 256 },
  commandLinks: { default: 1, min: 0, max: 32 },
  edgeConnectSeconds: { default: 10, min: 1, max: 60 },
  edgeUnconnectedPerDevice: { default: 10, min: 1, max: 1_000 },
  edgePacketBytes: { default: 65_536, min: 1_024, max: 262_144 },
  edgeReceiveMaximum: { default: 100, min: 1, max: 65_535 },
  edgePacketBurst: { default: 1_000, min: 1, max: 1_000_000 },
  edgePacketsPerSecond: { default: 50, min: 1, max: 1_000_000 },
  // They have to fit into the attachment of a socket.
  edgeSubscriptions: { default: 20, min: 1, max: 30 },
  edgeInFlight: { default: 16, min: 1, max: 256 },
  edgeUnreadBytes: { default: 65_536, min: 1_024, max: 16_777_216 },
  edgeGatherMs: { default: 5, min: 0, max: 100 },
  edgeWatchSeconds: { default: 300, min: 10, max: 86_400 },
  edgeReconnectGraceSeconds: { default: 30, min: 0, max: 3_600 },
  edgeUnprovenPerDeviceMinute: { default: 6, min: 0, max: 1_000_000 },
  edgeUnprovenPerAddressMinute: { default: 20, min: 0, max: 1_000_000 },
  edgeUnprovenPerMinute: { default: 300, min: 0, max: 1_000_000 },
  edgeUnconnectedPerAddress: { default: 100, min: 1, max: 30_000 },
  edgeUnconnected: { default: 2_000, min: 1, max: 30_000 },
  edgeUntakenBytes: { default: 1_048_576, min: 131_072, max: 16_777_216 },
  deviceMessagesPerMinute: { default: 600, min: 1, max: 10_000_000 },
  deviceTransitionsPerMinute: { default: 20, min: 1, max: 10_000_000 },
  deviceAnnouncementsPerMinute: { default: 20, min: 1, max: 10_000_000 },
  deviceProjectionsPerMinute: { default: 30, min: 1, max: 60_000 },
  infoLinesPerSecond: { default: 100, min: 0, max: 1_000_000 },
  productChangesPerMinute: { default: 20, min: 1, max: 10_000 },
  productDevicesPerSecond: { default: 200, min: 1, max: 100_000 },
  projectionsPerSecond: { default: 500, min: 1, max: 100_000 },
  projectionsWaiting: { default: 1_000, min: 1, max: 100_000 },
} as const satisfies Record<string, LimitSpec>;

type LimitName = keyof typeof limitSpecs;
export type Limits = Readonly<Record<LimitName, number>>;

/** Reads `name=value,name=value`; what is not named keeps its default. Of each part that is wrong `onProblem` is told. */
export function readLimits(text: string, onProblem: (problem: string) => void = fail): Limits {
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

function fail(problem: string): never {
  throw new Error(problem);
}
