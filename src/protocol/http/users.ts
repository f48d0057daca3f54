// Requests and answers of accounts, sessions and API keys (contract 2.3, 4.1). Shapes only.
import { z } from '@hono/zod-openapi';
import { keyScopes, securityEventKinds } from '../vocabulary.ts';
import {
  cursorSchema,
  deviceIdSchema,
  distinctSchema,
  instantSchema,
  lineSchema,
  objectPageSchema,
  objectSchema,
  strictSchema,
  textSchema,
} from './common.ts';

const deviceTokenExample = 'dt_8dUaGp4iKo9VxTzNyB2sRv0XkqFQ7cJ5mZb1tYHnLwE';

const emailSchema = z
  .string()
  .trim()
  .max(254)
  .check(z.email())
  .openapi({ format: 'email', example: 'ada@example.com' });
// Longer than any password may be, so that a wrong one is answered as wrong.
const oldPasswordSchema = z.string().max(1024).openapi({ example: 'correct horse battery' });
const newPasswordSchema = textSchema(0, 128).openapi({ example: 'correct horse battery' });
const refreshTokenSchema = z
  .string()
  .max(256)
  .openapi({ example: 'rt_hG3kPz8QwX1nTb6YcJ4vRm2sRv0XkqFQ7cJ5mZb1tYHnLwE8dUaGp4iKo9VxTzNyB' });

// Longer than any token, so that an unknown one is ignored.
const shownDeviceTokenSchema = z.string().max(256).nullish().openapi({
  description: 'From an earlier login: failed logins of others do not delay this client. Null asks for one.',
  example: deviceTokenExample,
});

export const resetRequestBodySchema = strictSchema('PasswordResetRequest', { email: emailSchema });
export const resetRequestedSchema = objectSchema('PasswordResetRequested', { message: z.literal('reset_requested') });
export const resetBodySchema = strictSchema('PasswordReset', {
  token: z.string().max(256).openapi({ example: 'pr_8dUaGp4iKo9VxTzNyB2sRv0XkqFQ7cJ5mZb1tYHnLwE' }),
  newPassword: newPasswordSchema,
});

export const verificationBodySchema = strictSchema('EmailVerification', {
  token: z.string().max(256).openapi({ example: 'ev_8dUaGp4iKo9VxTzNyB2sRv0XkqFQ7cJ5mZb1tYHnLwE' }),
});
const emailVerifiedSchema = z.boolean().openapi({ description: 'Always true if the service sends no mails.' });
export const verificationSchema = objectSchema('EmailVerified', { emailVerified: emailVerifiedSchema });

export const registerBodySchema = objectSchema('RegisterRequest', {
  username: lineSchema(3, 254)
    .regex(/^\S.*\S$/, 'must not begin or end with a space')
    .nullish()
    .openapi({
      description: 'By default the email. With an @ it has to be the email.',
      pattern: '^\\S[^\\u0000-\\u001f\\u007f]*\\S$',
      example: 'ada@example.com',
    }),
  password: newPasswordSchema,
  email: emailSchema,
});
export type RegisterBody = z.infer<typeof registerBodySchema>;

export const loginBodySchema = z
  .object({
    username: z.string().max(254).nullish().openapi({ description: 'Username or email.', example: 'ada@example.com' }),
    email: z.string().max(254).nullish().openapi({ description: 'Read if `username` is absent.' }),
    password: oldPasswordSchema,
    deviceToken: shownDeviceTokenSchema,
  })
  .refine(({ username, email }) => typeof (username ?? email) === 'string', {
    path: ['username'],
    message: 'a username or an email is needed',
  })
  .openapi('LoginRequest', { description: 'A username or an email is needed.' });
export type LoginBody = z.infer<typeof loginBodySchema>;

export const refreshBodySchema = objectSchema('RefreshRequest', { refreshToken: refreshTokenSchema });

export const logoutBodySchema = z
  .strictObject({ refreshToken: refreshTokenSchema.optional() })
  .openapi('LogoutRequest', { description: 'The session to end; by default that of the bearer token.' });

export const passwordBodySchema = strictSchema('PasswordRequest', {
  oldPassword: oldPasswordSchema,
  newPassword: newPasswordSchema,
  deviceToken: shownDeviceTokenSchema,
  endSessions: z.boolean().default(true).openapi({ description: 'All but the session of this request.' }),
  endKeys: z.boolean().default(true).openapi({ description: 'All API keys.' }),
});
export type PasswordBody = z.infer<typeof passwordBodySchema>;

export const userSchema = objectSchema('User', {
  userId: z.int().openapi({ example: 42 }),
  username: z.string().openapi({ example: 'ada@example.com' }),
  email: z.string().openapi({ example: 'ada@example.com' }),
});

export const accountSchema = userSchema
  .extend({ emailVerified: emailVerifiedSchema, createdAt: instantSchema })
  .openapi('Account');

export const tokenPairSchema = objectSchema('TokenPair', {
  token: z.string().openapi({ description: 'Access token, a JWT.', example: 'eyJhbGciOiJIUzI1NiIs...' }),
  refreshToken: refreshTokenSchema.openapi({ description: 'Good for one use within 30 days.' }),
  expiresIn: z.int().openapi({ description: 'Seconds the access token is valid.', example: 7200 }),
});

export const sessionSchema = objectSchema('Session', {
  user: userSchema,
  ...tokenPairSchema.shape,
  deviceToken: z
    .string()
    .optional()
    .openapi({ description: 'Keep it and send it with the next logins.', example: deviceTokenExample }),
});

export const loggedOutSchema = objectSchema('LoggedOut', { message: z.literal('logged_out') });

export const passwordChangedSchema = objectSchema('PasswordChanged', {
  message: z.literal('password_changed'),
  endedSessions: z.int().min(0).openapi({ example: 2 }),
  endedKeys: z.int().min(0).openapi({ example: 1 }),
});

export const confirmationBodySchema = strictSchema('ConfirmationRequest', { password: oldPasswordSchema });
export const confirmedSchema = objectSchema('Confirmed', { message: z.literal('confirmed') });

export const sessionIdSchema = z.string().openapi({ example: '5f2b9c7d1e8a4f3b6c0d2e1f' });

export const ownSessionPageSchema = objectPageSchema('OwnSession', {
  sessionId: sessionIdSchema,
  createdAt: instantSchema.openapi({ description: 'The login.' }),
  lastUsedAt: instantSchema.openapi({ description: 'The login, or the last exchange of its refresh token.' }),
  expiresAt: instantSchema.openapi({ description: 'When it ends if it is not used.' }),
  clientAddress: z.string().nullable().openapi({ description: 'Of IPv6 the first 64 bits.', example: '192.0.2.7' }),
  userAgent: z.string().nullable().openapi({ example: 'Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0' }),
  isCurrent: z.boolean().openapi({ description: 'The session of this request.' }),
});

export const endedSessionSchema = objectSchema('EndedSession', { sessionId: sessionIdSchema });

export const endSessionsQuerySchema = z.object({
  keep: z.enum(['current']).optional().openapi({ description: 'All but the session of this request.' }),
});
export const endedSessionsSchema = objectSchema('EndedSessions', { ended: z.int().min(0).openapi({ example: 3 }) });

export const securityEventPageSchema = objectPageSchema('SecurityEvent', {
  kind: z.enum(securityEventKinds),
  at: instantSchema.openapi({ description: 'The first of `count`.' }),
  count: z.int().min(1).openapi({ description: 'How many equal events there were within an hour.', example: 1 }),
  clientAddress: z.string().nullable().openapi({ description: 'The last.', example: '192.0.2.7' }),
  detail: z.record(z.string(), z.union([z.string(), z.number()])).openapi({ example: { deviceId: 'dev_8k2m4n6p' } }),
});

const afterText =
  'Where the page of devices before ended: its `next`. Without it, the first page, which has `account`.';
export const ownDataQuerySchema = z.object({ after: cursorSchema.optional().openapi({ description: afterText }) });
export const ownDataSchema = objectSchema('OwnData', {
  account: z
    .record(z.string(), z.unknown())
    .nullable()
    .openapi({ description: 'Sessions, keys, products, groups and so on, as their own routes list them.' }),
  devices: z
    .array(z.record(z.string(), z.unknown()))
    .openapi({ description: 'That you own or that are shared with you.' }),
  next: z.string().nullable().openapi({ description: 'Null: these are the last devices.' }),
});
export const accountDeletedSchema = objectSchema('AccountDeleted', {
  message: z.literal('account_deleted'),
  isComplete: z.boolean().openapi({ description: 'False: some devices are released within minutes.' }),
});

export const keyIdSchema = z.string().openapi({ example: 'ak_4fTq9ZbXw2LmVs7RkPyD' });
const descriptionSchema = lineSchema(0, 200).openapi({ example: 'Building automation' });

const scopesSchema = z
  .array(z.enum(keyScopes))
  .min(1)
  .max(8)
  .openapi({ description: 'Each route names the scopes of which it needs one.', example: ['read'] });
/** A key travels with each of its calls. */
const maxDevicesOfKey = 50;
const productKeySchema = z.string().openapi({ description: 'The one product that it is for.' });

export const apiKeyBodySchema = strictSchema('ApiKeyRequest', {
  description: descriptionSchema.default(''),
  scopes: scopesSchema.optional(),
  productKey: productKeySchema.nullish(),
  deviceIds: distinctSchema(deviceIdSchema, 1, maxDevicesOfKey).nullish().openapi({
    description: 'The devices that it is for, own or shared ones. Such a key has not `manage`.',
  }),
});
export type ApiKeyBody = z.infer<typeof apiKeyBodySchema>;

const limitedTo = {
  scopes: z.array(z.enum(keyScopes)),
  productKey: productKeySchema.nullable(),
  deviceIds: z.array(deviceIdSchema).nullable(),
};

export const createdApiKeySchema = z
  .object({
    keyId: keyIdSchema,
    apiKey: z.string().openapi({ description: 'Shown this once.', example: 'sk_h8Jw3cNq0TzYbVx6LmRfKs2P' }),
    description: z.string(),
    ...z.object(limitedTo).partial().shape,
  })
  .openapi('CreatedApiKey', { description: 'Scopes, product and devices only if the request had one of them.' });

export const apiKeyPageSchema = objectPageSchema('ApiKey', {
  keyId: keyIdSchema,
  description: z.string(),
  ...limitedTo,
  createdAt: instantSchema,
  lastUsedAt: instantSchema.nullable().openapi({ description: 'To the minute; null before the first use.' }),
});

export const deletedApiKeySchema = objectSchema('DeletedApiKey', { keyId: keyIdSchema });
