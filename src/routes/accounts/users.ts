// Accounts and sessions (contract 4.1): parse, one service call, answer. No rule lives here.
import { inPersonFor, readBearer, signedInFor } from '../../http/authenticate.ts';
import { limitRate, readUserAgent } from '../../http/client-address.ts';
import { answer, responsesOf, signedInErrors } from '../../http/envelope.ts';
import { jsonBody, createRouter, routesAbout } from '../../http/router.ts';
import { pageQuerySchema } from '../../protocol/http/devices.ts';
import * as schemas from '../../protocol/http/users.ts';
import {
  changePassword,
  confirmPassword,
  readAccount,
  registerUser,
  requestVerification,
} from '../../services/accounts/accounts.ts';
import { verifyEmail } from '../../services/accounts/email-verification.ts';
import { requestPasswordReset, resetPassword } from '../../services/accounts/password-resets.ts';
import { pageSecurityEvents } from '../../services/accounts/security-events.ts';
import { logIn, logOut, refreshSession } from '../../services/accounts/sessions.ts';

const route = routesAbout('Users');
const signingIn = routesAbout('Signing in');
const onSessions = inPersonFor('manageSessions');
const strangerErrors = ['invalid_request', 'forbidden', 'too_many_requests'] as const;

export const userRoutes = createRouter()
  .openapi(
    signingIn('post', '/register', {
      summary: 'Create an account',
      middleware: limitRate('REGISTER_LIMIT'),
      request: { body: jsonBody(schemas.registerBodySchema) },
      responses: responsesOf(schemas.userSchema, ...strangerErrors, 'weak_password', 'email_exists', 'username_exists'),
    }),
    (c) => {
      const { username, email, password } = c.req.valid('json');
      return answer(c, registerUser(c.var.context, { username: username ?? email, email, password }));
    },
  )
  .openapi(
    signingIn('post', '/login', {
      summary: 'Log in with a username or an email',
      description:
        'After five wrong passwords for one account from one address each further attempt from there has to wait, from 1 s ' +
        'doubling to 15 minutes. A device that sends the `deviceToken` of an earlier login is counted by itself; it gets one by sending null.',
      middleware: limitRate('LOGIN_LIMIT'),
      request: { body: jsonBody(schemas.loginBodySchema) },
      responses: responsesOf(schemas.sessionSchema, ...strangerErrors, 'invalid_password'),
    }),
    (c) => answer(c, logIn(c.var.context, c.req.valid('json'), readUserAgent(c))),
  )
  .openapi(
    signingIn('post', '/refresh-token', {
      summary: 'Get a fresh pair of tokens',
      description:
        'Needs no bearer token and ignores a stale one. A refresh token is good for one use: a second use within 30 s is ' +
        'answered with a fresh access token and the same refresh token as the first, a later one ends the session.',
      middleware: limitRate('REFRESH_LIMIT'),
      request: { body: jsonBody(schemas.refreshBodySchema) },
      responses: responsesOf(schemas.tokenPairSchema, ...signedInErrors, 'too_many_requests'),
    }),
    (c) => answer(c, refreshSession(c.var.context, c.req.valid('json').refreshToken, readUserAgent(c))),
  )
  .openapi(
    route('get', '/me', {
      summary: 'Read your own account',
      ...signedInFor('readAccount'),
      responses: responsesOf(schemas.accountSchema, 'unauthorized'),
    }),
    (c) => answer(c, readAccount(c.var.context, c.var.caller.userId)),
  )
  .openapi(
    route('post', '/me/email-verification', {
      summary: 'Ask again for the mail that confirms your e-mail',
      description: 'Registering sends it, too. A verified account gets none: the answer says whether it is.',
      ...onSessions,
      middleware: [onSessions.middleware, limitRate('LOGIN_LIMIT')] as const,
      responses: responsesOf(schemas.verificationSchema, ...signedInErrors, 'too_many_requests'),
    }),
    (c) => answer(c, requestVerification(c.var.context, c.var.caller.userId)),
  )
  .openapi(
    route('post', '/email-verification', {
      summary: 'Confirm an e-mail with the token of a mail',
      description:
        'The token is good once, for 24 hours. Without it an account may not invite, and is offered nothing.',
      middleware: limitRate('LOGIN_LIMIT'),
      request: { body: jsonBody(schemas.verificationBodySchema) },
      responses: responsesOf(schemas.verificationSchema, 'invalid_request', 'too_many_requests'),
    }),
    async (c) => {
      await verifyEmail(c.var.context, c.req.valid('json').token);
      return answer(c, { emailVerified: true });
    },
  )
  .openapi(
    route('get', '/me/security-events', {
      summary: 'List what concerned the safety of your account in 90 days, newest first',
      ...onSessions,
      request: { query: pageQuerySchema },
      responses: responsesOf(schemas.securityEventPageSchema, ...signedInErrors),
    }),
    (c) => answer(c, pageSecurityEvents(c.var.context, c.var.caller.userId, c.req.valid('query'))),
  )
  .openapi(
    signingIn('post', '/logout', {
      summary: 'End a session',
      description:
        'Ends the session of the refresh token in the body, or else that of the bearer token; one of the two is needed. ' +
        'An access token that was issued before reads and controls until it expires, and changes nothing.',
      'x-actions': onSessions['x-actions'],
      security: [...onSessions.security, {}],
      middleware: limitRate('REFRESH_LIMIT'),
      request: { body: jsonBody(schemas.logoutBodySchema, { isRequired: false }) },
      responses: responsesOf(schemas.loggedOutSchema, ...signedInErrors, 'too_many_requests'),
    }),
    async (c) => {
      const { refreshToken } = c.req.valid('json');
      await logOut(c.var.context, refreshToken, await readBearer(c));
      return answer(c, { message: 'logged_out' as const });
    },
  )
  .openapi(
    route('put', '/password', {
      summary: 'Change your password',
      description: 'Ends all other sessions and all API keys, unless the request says otherwise.',
      ...onSessions,
      middleware: [onSessions.middleware, limitRate('LOGIN_LIMIT')] as const,
      request: { body: jsonBody(schemas.passwordBodySchema) },
      responses: responsesOf(schemas.passwordChangedSchema, ...signedInErrors, 'weak_password', 'invalid_password'),
    }),
    (c) => answer(c, changePassword(c.var.context, c.var.caller, c.req.valid('json'))),
  )
  .openapi(
    route('post', '/me/confirmations', {
      summary: 'Show your password again',
      description:
        'For five minutes this session may then do what answers `confirmation_required`. A login counts as well. Wrong ' +
        'passwords count as at a login.',
      ...onSessions,
      middleware: [onSessions.middleware, limitRate('LOGIN_LIMIT')] as const,
      request: { body: jsonBody(schemas.confirmationBodySchema) },
      responses: responsesOf(schemas.confirmedSchema, ...signedInErrors, 'invalid_password', 'too_many_requests'),
    }),
    (c) => answer(c, confirmPassword(c.var.context, c.var.caller, c.req.valid('json').password)),
  )
  .openapi(
    route('post', '/password-reset', {
      summary: 'Ask for a mail with which a forgotten password can be set anew',
      description:
        'The answer is the same whether the account exists or not. A deployment that sends no mails answers `not_found`: there ' +
        'the operator resets passwords.',
      middleware: limitRate('LOGIN_LIMIT'),
      request: { body: jsonBody(schemas.resetRequestBodySchema) },
      responses: responsesOf(schemas.resetRequestedSchema, 'invalid_request', 'not_found', 'too_many_requests'),
    }),
    (c) => {
      requestPasswordReset(c.var.context, c.req.valid('json').email);
      return answer(c, { message: 'reset_requested' as const });
    },
  )
  .openapi(
    route('put', '/password-reset', {
      summary: 'Set a password anew',
      description:
        'With the token of a mail or of the operator, good once and for half an hour. Ends all sessions and API keys.',
      middleware: limitRate('LOGIN_LIMIT'),
      request: { body: jsonBody(schemas.resetBodySchema) },
      responses: responsesOf(schemas.passwordChangedSchema, 'invalid_request', 'weak_password', 'too_many_requests'),
    }),
    (c) => answer(c, resetPassword(c.var.context, c.req.valid('json'))),
  );
