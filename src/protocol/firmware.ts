// Firmware on the wire: versions, the manifest that a maker signs, and what a device says of an update. Shapes and sizes only.
import { z } from 'zod';

const maxImageBytes = 16 * 1024 * 1024;
/** A small chip holds the signed manifest whole. */
export const maxManifestBytes = 1024;
/** A message with so much of an image in base64 fits into a packet of 256 bytes, and one `get` is answered by eight of them. */
export const dataBytes = 75;
export const maxGetBytes = 8 * dataBytes;
/** Of the image's SHA-256, for a device that has it already. */
export const hashBeginLength = 16;

/** Up to four numbers. */
export const versionSchema = z
  .string()
  .regex(/^\d{1,5}(?:\.\d{1,5}){0,3}$/, 'must be up to four numbers with dots between them');

/** Negative if `one` is older; a number that is missing is 0. */
export function compareVersions(one: string, other: string): number {
  const [left, right] = [one, other].map((version) => version.split('.').map(Number));
  for (let place = 0; place < 4; place++) {
    const difference = (left?.[place] ?? 0) - (right?.[place] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

export const manifestSchema = z.object({
  product: z.string(),
  version: versionSchema,
  size: z.int().min(1).max(maxImageBytes),
  sha256: z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 hex digits'),
  /** What a device has to run to take it. */
  minimumVersion: versionSchema.optional(),
  /** Owners cannot postpone it. */
  security: z.boolean().optional(),
  notes: z.string().max(200).optional(),
});
export type Manifest = z.infer<typeof manifestSchema>;

/** The first 16 hex digits of the SHA-256 of a public key. */
const keyIdSchema = z.string().regex(/^[0-9a-f]{16}$/);

export const informSchema = z.object({
  version: versionSchema,
  slot: z.string().max(16).optional(),
  keys: z.array(keyIdSchema).max(4).optional(),
});
export type Inform = z.infer<typeof informSchema>;

export const progressSchema = z.object({
  step: z.enum(['accepted', 'downloading', 'downloaded', 'restarting', 'failed']),
  percent: z.number().min(0).max(100).optional(),
  error: z
    .string()
    .regex(/^[\x20-\x7e]{1,64}$/)
    .optional(),
});
export type Progress = z.infer<typeof progressSchema>;

export const getSchema = z.object({
  offset: z.int().min(0).max(maxImageBytes),
  length: z.int().min(1).max(maxGetBytes),
  manifest: z.literal(true).optional(),
});
export type Get = z.infer<typeof getSchema>;

export const upgradeSchema = z.object({
  version: versionSchema,
  size: z.int(),
  hash: z.string().length(hashBeginLength),
  url: z.string(),
});

/** `paused` and `busy`: ask again later. `gone`: the update has ended. */
export const dataSchema = z.union([
  z.object({ offset: z.int(), data: z.base64(), manifest: z.literal(true).optional() }),
  z.object({ offset: z.int(), error: z.enum(['paused', 'gone', 'range', 'busy']) }),
]);
export type Data = z.infer<typeof dataSchema>;
