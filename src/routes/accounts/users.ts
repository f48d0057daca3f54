// Accounts, sessions and API keys (contract 4.1): parse, one service call, answer. No rule lives here.
import { confirmedFor, inPersonFor, readBearer, signedInFor } from '../../http/authenticate.ts';
import { limitedBy, limitRate, readUserAgent } from '../../http/client-address.ts';
import { answer, confirmedErrors, declaring, signedInErrors } from '../../http/envelope.ts';
import { jsonBody, createRouter, paged, routesAbout } from '../../http/router.ts';
import * as schemas from '../../protocol/http/users.ts';
import {
  changePassword,
  confirmPassword,
  readAccount,
  registerUser,
  requestVerification,
} from '../../services/accounts/accounts.ts';
import { createApiKey, pageApiKeys, removeApiKey } from '../../services/accounts/api-keys.ts';
import { deleteOwnAccount, exportOwnData } from '../../services/accounts/own-data.ts';
import { verifyEmail } from '../../services/accounts/email-verification.ts';
import { requestPasswordReset, resetPassword } from '../../services/accounts/password-resets.ts';
import { pageSecurityEvents } from '../../services/accounts/security-events.ts';
import {
  endSession,
  endSessions,
  logIn,
  logOut,
  pageSessions,
  refreshSession,
} from '../../services/accounts/sessions.ts';

const route = routesAbout('Users');
const signingIn = routesAbout('Signing in');
const aboutKeys = routesAbout('API keys');
const inPerson = inPersonFor('manageSessions');
const asUser = declaring(inPerson, ...signedInErrors);
const likeLogin = declaring(limitedBy('LOGIN_LIMIT', inPerson), ...signedInErrors);
const ofAccount = inPersonFor('manageAccount');
const deleting = declaring(limitedBy('LOGIN_LIMIT', ofAccount), ...signedInErrors);
const refreshing = declaring({ middleware: limitRate('REFRESH_LIMIT') }, ...signedInErrors);
const registering = declaring({ middleware: limitRate('REGISTER_LIMIT') }, 'invalid_request', 'forbidden');
const asStranger = declaring({ middleware: limitRate('LOGIN_LIMIT') }, 'invalid_request', 'too_many_requests');
const onKeys = declaring(inPersonFor('manageKeys'), ...signedInErrors);
const makingKeys = declaring(confirmedFor('manageKeys'), ...confirmedErrors);
const resetSummary = 'Ask for a mail with which a forgotten password can be set anew';
const eventsSummary = 'List what concerned the safety of your account in 90 days, newest first';
const registerErrors = ['too_many_requests', 'weak_password', 'email_exists', 'username_exists'] as const;

export const userRoutes = createRouter()
  .openapi(
    signingIn('post', '/register', {
      ...registering('Create an account', schemas.userSchema, ...registerErrors),
      request: { body: jsonBody(schemas.registerBodySchema) },
    }),
    (c) => answer(c, registerUser(c.var.context, c.req.valid('json'))),
  )
  .openapi(
    signingIn('post', '/login', {
      ...asStranger('Log in with a username or an email', schemas.sessionSchema, 'forbidden', 'invalid_password'),
      description:
        'After five wrong passwords for one account from one address each further attempt from there has to wait, from 1 s ' +
        'doubling to 15 minutes. A device that sends the `deviceToken` of an earlier login is counted by itself; it gets one by sending null.',
      request: { body: jsonBody(schemas.loginBodySchema) },
    }),
    (c) => answer(c, logIn(c.var.context, c.req.valid('json'), readUserAgent(c))),
  )
  .openapi(
    signingIn('post', '/refresh-token', {
      ...refreshing('Get a fresh pair of tokens', schemas.tokenPairSchema),
      description:
        'Needs no bearer token and ignores a stale one. A refresh token is good for one use: a second use within 30 s is ' +
        'answered with a fresh access token and the same refresh token as the first, a later one ends the session.',
      request: { body: jsonBody(schemas.refreshBodySchema) },
    }),
    (c) => answer(c, refreshSession(c.var.context, c.req.valid('json').refreshToken, readUserAgent(c))),
  )
  .openapi(
    route('get', '/me', {
      ...declaring(signedInFor('readAccount'), 'unauthorized')('Read your own account', schemas.accountSchema),
    }),
    (c) => answer(c, readAccount(c.var.context, c.var.caller.userId)),
  )
  .openapi(
    route('delete', '/me', {
      ...deleting(
        'Delete your account for good',
        schemas.accountDeletedSchema,
        'invalid_password',
        'product_has_devices',
      ),
      description:
        'Sessions, keys and webhooks end, your devices are released, your e-mail is forgotten. Devices of other users keep a product: ' +
        'they have to be released, or its owner asks the operator.',
      request: { body: jsonBody(schemas.confirmationBodySchema) },
    }),
    (c) => answer(c, deleteOwnAccount(c.var.context, c.var.caller, c.req.valid('json').password)),
  )
  .openapi(
    route('get', '/me/export', {
      ...declaring(ofAccount, ...signedInErrors)('Get a copy of all your data', schemas.ownDataSchema),
      request: { query: schemas.ownDataQuerySchema },
    }),
    (c) => answer(c, exportOwnData(c.var.context, c.var.caller, c.req.valid('query').after)),
  )
  .openapi(
    route('post', '/me/email-verification', {
      ...likeLogin('Ask again for the mail that confirms your e-mail', schemas.verificationSchema),
      description: 'Registering sends it, too. A verified account gets none: the answer says whether it is.',
    }),
    (c) => answer(c, requestVerification(c.var.context, c.var.caller.userId)),
  )
  .openapi(
    route('post', '/email-verification', {
      ...asStranger('Confirm an e-mail with the token of a mail', schemas.verificationSchema),
      description:
        'The token is good once, for 24 hours. Without it an account may not invite, and is offered nothing.',
      request: { body: jsonBody(schemas.verificationBodySchema) },
    }),
    async (c) => {
      await verifyEmail(c.var.context, c.req.valid('json').token);
      return answer(c, { emailVerified: true });
    },
  )
  .openapi(
    route(
      'get',
      '/me/sessions',
      paged(asUser('List your sessions, the last used first', schemas.ownSessionPageSchema)),
    ),
    (c) => answer(c, pageSessions(c.var.context, c.var.caller, c.req.valid('query'))),
  )
  .openapi(
    route('delete', '/me/sessions/{sessionId}', {
      ...asUser('End one of your sessions', schemas.endedSessionSchema, 'not_found'),
      description:
        'Its refresh token is gone at once. An access token that was issued before reads and controls until it expires, and ' +
        'changes nothing.',
    }),
    (c) => answer(c, endSession(c.var.context, c.var.caller, c.req.valid('param').sessionId)),
  )
  .openapi(
    route('delete', '/me/sessions', {
      ...asUser('End all of your sessions, or all others', schemas.endedSessionsSchema),
      description: 'As for a single one. With `keep=current` the session of this request goes on.',
      request: { query: schemas.endSessionsQuerySchema },
    }),
    (c) => answer(c, endSessions(c.var.context, c.var.caller, c.req.valid('query').keep === 'current')),
  )
  .openapi(
    route('get', '/me/security-events', {
      ...paged(asUser(eventsSummary, schemas.securityEventPageSchema)),
    }),
    (c) => answer(c, pageSecurityEvents(c.var.context, c.var.caller.userId, c.req.valid('query'))),
  )
  .openapi(
    signingIn('post', '/logout', {
      ...refreshing('End a session', schemas.loggedOutSchema),
      description:
        'Ends the session of the refresh token in the body, or else that of the bearer token; one of the two is needed. ' +
        'An access token that was issued before reads and controls until it expires, and changes nothing.',
      'x-actions': inPerson['x-actions'],
      security: [...inPerson.security, {}],
      request: { body: jsonBody(schemas.logoutBodySchema, { isRequired: false }) },
    }),
    async (c) => {
      const { refreshToken } = c.req.valid('json');
      await logOut(c.var.context, refreshToken, await readBearer(c));
      return answer(c, { message: 'logged_out' as const });
    },
  )
  .openapi(
    route('put', '/password', {
      ...likeLogin('Change your password', schemas.passwordChangedSchema, 'weak_password', 'invalid_password'),
      description: 'Ends all other sessions and all API keys, unless the request says otherwise.',
      request: { body: jsonBody(schemas.passwordBodySchema) },
    }),
    (c) => answer(c, changePassword(c.var.context, c.var.caller, c.req.valid('json'))),
  )
  .openapi(
    route('post', '/me/confirmations', {
      ...likeLogin('Show your password again', schemas.confirmedSchema, 'invalid_password'),
      description:
        'For five minutes this session may then do what answers `confirmation_required`. A login counts as well. Wrong ' +
        'passwords count as at a login.',
      request: { body: jsonBody(schemas.confirmationBodySchema) },
    }),
    (c) => answer(c, confirmPassword(c.var.context, c.var.caller, c.req.valid('json').password)),
  )
  .openapi(
    route('post', '/password-reset', {
      ...asStranger(resetSummary, schemas.resetRequestedSchema, 'not_found'),
      description:
        'The answer is the same whether the account exists or not. A deployment that sends no mails answers `not_found`: there ' +
        'the operator resets passwords.',
      request: { body: jsonBody(schemas.resetRequestBodySchema) },
    }),
    (c) => {
      requestPasswordReset(c.var.context, c.req.valid('json').email);
      return answer(c, { message: 'reset_requested' as const });
    },
  )
  .openapi(
    route('put', '/password-reset', {
      ...asStranger('Set a password anew', schemas.passwordChangedSchema, 'weak_password'),
      description:
        'With the token of a mail or of the operator, good once and for half an hour. Ends all sessions and API keys.',
      request: { body: jsonBody(schemas.resetBodySchema) },
    }),
    (c) => answer(c, resetPassword(c.var.context, c.req.valid('json'))),
  )
  .openapi(
    aboutKeys('post', '/api-keys', {
      ...makingKeys(
        'Create an API key',
        schemas.createdApiKeySchema,
        'not_found',
        'device_not_found',
        'too_many_api_keys',
      ),
      description:
        'The value is shown this once. A user has at most 20 keys, or as many as the operator allows. A key may be held to ' +
        'scopes and to the devices of one product; without them it may do everything that keys may. `manage` amounts to ' +
        'owning the devices: it makes messaging passwords, claims devices and invites users.',
      request: { body: jsonBody(schemas.apiKeyBodySchema) },
    }),
    (c) => answer(c, createApiKey(c.var.context, c.var.caller.userId, c.req.valid('json'))),
  )
  .openapi(
    aboutKeys('get', '/api-keys', paged(onKeys('List your API keys, newest first', schemas.apiKeyPageSchema))),
    (c) => answer(c, pageApiKeys(c.var.context, c.var.caller.userId, c.req.valid('query'))),
  )
  .openapi(
    aboutKeys('delete', '/api-keys/{keyId}', {
      ...onKeys('Delete an API key', schemas.deletedApiKeySchema, 'forbidden', 'not_found'),
      description: 'Its guest links, its claim tokens and its open invitations end with it.',
    }),
    (c) => answer(c, removeApiKey(c.var.context, c.var.caller.userId, c.req.valid('param').keyId)),
  );
