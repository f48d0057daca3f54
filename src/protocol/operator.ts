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
export const sliceDoneSchema = z.object({
  done: z.int(),
  failed: z.int(),
  cursor: z.int().nullable(),
});
export type SliceDone = z.infer<typeof sliceDoneSchema>;

export const reconciledSchema = z.object({
  checked: z.int(),
  inactive: z.int(),
  deleted: z.int(),
  failed: z.int(),
  cursor: z.int().nullable(),
});
export type Reconciled = z.infer<typeof reconciledSchema>;

/** Of an account or a device: facts to be shown, and its last events. */
export const foundSchema = z.looseObject({ events: z.array(z.looseObject({})) });
export type Found = z.infer<typeof foundSchema>;
