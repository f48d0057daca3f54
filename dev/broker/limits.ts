// What strangers and sessions may take of the local broker; `BROKER_LIMITS="name=value,name=value"` moves single ones.
// docs/limits.md describes them.
const defaults = {
  connections: 10_000,
  connectionsPerAddress: 5_000,
  connectSeconds: 10,
  connectBytes: 8 * 1024,
  packetBytes: 64 * 1024,
  publishBurst: 2_000,
  publishesPerSecond: 500,
  refusedLoginBurst: 20,
  refusedLoginsPerMinute: 60,
  queuedMessages: 100_000,
  queuedBytes: 64 * 1024 * 1024,
};

export type BrokerLimits = Readonly<typeof defaults>;
export const brokerLimitDefaults: BrokerLimits = defaults;

/** @throws Error with the name of what is not a limit or has no whole number from 1 */
export function readBrokerLimits(text: string): BrokerLimits {
  const limits = { ...defaults };
  for (const part of text.split(',').map((entry) => entry.trim())) {
    if (part === '') continue;
    const [name = '', digits = ''] = part.split('=', 2);
    if (!isLimitName(name)) throw new Error(`BROKER_LIMITS has no limit "${name}"; docs/limits.md lists them`);
    const value = /^\d{1,12}$/.test(digits) ? Number(digits) : 0;
    if (value < 1) throw new Error(`BROKER_LIMITS: ${name} is a whole number from 1`);
    limits[name] = value;
  }
  return limits;
}

function isLimitName(name: string): name is keyof BrokerLimits {
  return Object.hasOwn(defaults, name);
}
