// Cloudflare's list prices beyond a plan, in US dollars. The cost of a device is computed from them and from the meter of a
// run. Data, no logic.

export const priceSources = [
  'https://developers.cloudflare.com/workers/platform/pricing/',
  'https://developers.cloudflare.com/durable-objects/platform/pricing/',
  'https://developers.cloudflare.com/d1/platform/pricing/',
  'https://developers.cloudflare.com/r2/pricing/',
];
export const pricesReadOn = '2026-11-22';

/** US dollars for a single unit of each. */
export const prices = {
  workerRequest: 0.3e-6,
  workerCpuMs: 0.02e-6,
  objectRequest: 0.15e-6,
  /** An object is charged with 128 MB, however little it uses. */
  objectGigabyteSecond: 12.5e-6,
  objectRowRead: 0.001e-6,
  objectRowWritten: 1e-6,
  databaseRowRead: 0.001e-6,
  databaseRowWritten: 1e-6,
  /** What is read costs nothing beside, however much it is. */
  bucketRead: 0.36e-6,
};

export const objectGigabytes = 0.128;
/** So many incoming messages of a WebSocket are charged as one request. */
export const messagesARequest = 20;
