// What an operator asks of the service (`npm run operator`), with an operator secret. Long work goes slice by slice: each
// answer has the cursor for the next request, null at the end. Shapes only.
import { z } from 'zod';

export const operatorPath = '/operator';

const nameSchema = z.string().min(1).max(254);
const cursorSchema = z.int().nonnegative().default(0);

export const signUpSchema = z.object({ open: z.boolean() });
export const accountNameSchema = z.object({ name: nameSchema });
export type AccountName = z.infer<typeof accountNameSchema>;
export const accountSliceSchema = z.object({ name: nameSchema, cursor: cursorSchema });
export type AccountSlice = z.infer<typeof accountSliceSchema>;
export const sliceSchema = z.object({ cursor: cursorSchema });
export type Slice = z.infer<typeof sliceSchema>;

export const passwordResetSchema = z.object({
  userId: z.int(),
  token: z.string(),
  link: z.string().nullable(),
  expiresAt: z.string(),
});
const endSchema = z.object({ failed: z.int(), cursor: z.int().nullable() });
export const sliceDoneSchema = endSchema.extend({ done: z.int() });
export type SliceDone = z.infer<typeof sliceDoneSchema>;

export const reconciledSchema = endSchema.extend({ checked: z.int(), inactive: z.int(), deleted: z.int() });
export type Reconciled = z.infer<typeof reconciledSchema>;

/** Of an account or a device: facts to be shown, and its last events. */
export const foundSchema = z.looseObject({ events: z.array(z.looseObject({})) });
export type Found = z.infer<typeof foundSchema>;

/** A request moves so many lines: one with what an object has may cost several calls. */
export const linesPerPage = 50;
/** A device with full histories has less than 400 KiB. */
export const maxImportBytes = 24 * 1024 * 1024;

const rowSchema = z.record(z.string().max(64), z.union([z.string().max(65_536), z.number(), z.null()]));
export type MovedRow = z.infer<typeof rowSchema>;
/** `in`: the table; `at`: number of the row where it was exported. */
const placeSchema = z.strictObject({ in: z.string().max(64), at: z.int().nonnegative() });
export type MovedPlace = z.infer<typeof placeSchema>;
/** `record`: what the objects of the user or of the device have. */
const lineSchema = placeSchema.extend({ row: rowSchema, record: z.looseObject({}).optional() });
export type MovedLine = z.infer<typeof lineSchema>;

export const exportSchema = z.strictObject({ after: placeSchema.nullable() });
export const exportedSchema = z.object({ lines: z.array(lineSchema), next: placeSchema.nullable() });
export type Exported = z.infer<typeof exportedSchema>;
/** Of one table. The results are `taken`, `there`, or why a line was refused. */
export const importSchema = z.strictObject({ lines: z.array(lineSchema).min(1).max(linesPerPage) });
export const importedSchema = z.object({ results: z.array(z.string()) });
