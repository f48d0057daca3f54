// A user's session: calls with an access token that is renewed in time, once for all calls that wait for it. Keeps the
// tokens in memory; `onTokens` hands them to a caller who keeps them for longer.
import type { Client, HttpOptions, Send } from './http.ts';
import { ApiError, connect, createSend, dataOf, withHeaders } from './http.ts';
import { Relay, type RelayOptions, type Token } from './relay.ts';

/** What an application keeps to resume the session. A refresh token is good for one use: keep the newest. */
export type Tokens = { token: string; refreshToken: string; expiresAtMs: number };

export type SessionOptions = HttpOptions & {
  /** New tokens, also those of the login. */
  onTokens?: (tokens: Tokens) => void;
  /**
   * Where several pages or processes share one session: runs `renew` while no other of them does, and gives it the tokens
   * that are kept now. A refresh token is good for one use; newer tokens than the own ones are taken instead of asking.
   */
  exclusively?: (renew: (kept: Tokens | null) => Promise<void>) => Promise<void>;
  /** The service no longer accepts the refresh token: the user has to log in again. */
  onEnded?: (error: ApiError) => void;
};

export type Login = {
  /** Username or email. */
  username: string;
  password: string;
  /** Of an earlier login on this device: see `deviceToken` of the session. */
  deviceToken?: string;
};

/** A token is renewed so long before it ends, or in the last tenth of a shorter life. */
const renewBeforeMs = 60_000;

export class Session {
  /** The calls of the interface, signed in. Read them with `dataOf`. */
  readonly api: Client;
  /** To be kept on the device and sent with its next logins: others' wrong passwords then do not delay them. */
  readonly deviceToken: string | undefined;
  readonly #baseUrl: string;
  readonly #options: SessionOptions;
  readonly #send: Send;
  readonly #anonymous: Client;
  #tokens: Tokens;
  #renewAtMs: number;
  #renewal: Promise<void> | undefined;
  #end: ApiError | undefined;

  private constructor(baseUrl: string, tokens: Tokens, options: SessionOptions, deviceToken?: string) {
    this.#baseUrl = baseUrl;
    this.#options = options;
    this.#send = createSend(options);
    this.#anonymous = connect(baseUrl, this.#send);
    this.#tokens = tokens;
    this.#renewAtMs = renewalOf(tokens.expiresAtMs);
    this.deviceToken = deviceToken;
    this.api = connect(baseUrl, (url, init) => this.#sendSigned(url, init));
  }

  /** @throws ApiError `invalid_password`, `too_many_requests`; NoAnswerError */
  static async logIn(baseUrl: string, login: Login, options: SessionOptions = {}): Promise<Session> {
    const { username, password, deviceToken = null } = login;
    const client = connect(baseUrl, createSend(options));
    const answer = await dataOf(client.users.login.$post({ json: { username, password, deviceToken } }));
    const session = new Session(baseUrl, tokensOf(answer), options, answer.deviceToken);
    options.onTokens?.(session.#tokens);
    return session;
  }

  /** With tokens that `onTokens` handed out. Asks nothing. */
  static resume(baseUrl: string, tokens: Tokens, options: SessionOptions = {}): Session {
    return new Session(baseUrl, tokens, options);
  }

  get tokens(): Tokens {
    return this.#tokens;
  }

  /**
   * An access token that is good for a while, renewed where `refused` is the present one.
   * @throws ApiError where the session has ended, NoAnswerError
   */
  async token(refused?: string): Promise<Token> {
    if (Date.now() >= this.#renewAtMs || refused === this.#tokens.token) await this.#renew();
    return { token: this.#tokens.token, renewAtMs: this.#renewAtMs };
  }

  /** The live messages of this user's devices. */
  openRelay(options: Omit<RelayOptions, 'login'> = {}): Relay {
    return new Relay(this.#baseUrl, { ...options, login: (refused) => this.token(refused) });
  }

  /** @throws ApiError, NoAnswerError */
  async logOut(): Promise<void> {
    await dataOf(this.#anonymous.users.logout.$post({ json: { refreshToken: this.#tokens.refreshToken } }));
    this.#end = new ApiError(401, 'unauthorized');
    this.#renewAtMs = 0;
  }

  async #sendSigned(url: string, init: RequestInit): Promise<Response> {
    const { token } = await this.token();
    const response = await this.#send(url, withHeaders(init, { Authorization: `Bearer ${token}` }));
    if (response.status !== 401 || !(await isTokenRefused(response))) return response;
    // Its key was rotated, or this machine's clock is wrong.
    const fresh = await this.token(token);
    return this.#send(url, withHeaders(init, { Authorization: `Bearer ${fresh.token}` }));
  }

  async #renew(): Promise<void> {
    if (this.#end !== undefined) throw this.#end;
    this.#renewal ??= this.#renewAmongOthers().finally(() => (this.#renewal = undefined));
    await this.#renewal;
  }

  async #renewAmongOthers(): Promise<void> {
    const { exclusively } = this.#options;
    if (exclusively === undefined) return this.#askForTokens();
    await exclusively(async (kept) => {
      if (kept === null || kept.token === this.#tokens.token) return this.#askForTokens();
      this.#tokens = kept;
      this.#renewAtMs = renewalOf(kept.expiresAtMs);
      if (Date.now() >= this.#renewAtMs) await this.#askForTokens();
    });
  }

  async #askForTokens(): Promise<void> {
    const { refreshToken } = this.#tokens;
    try {
      const answer = await dataOf(this.#anonymous.users['refresh-token'].$post({ json: { refreshToken } }));
      this.#tokens = tokensOf(answer);
      this.#renewAtMs = renewalOf(this.#tokens.expiresAtMs, answer.expiresIn * 1000);
    } catch (error) {
      if (error instanceof ApiError && error.code === 401) {
        this.#end = error;
        this.#options.onEnded?.(error);
      }
      throw error;
    }
    this.#options.onTokens?.(this.#tokens);
  }
}

function tokensOf(answer: { token: string; refreshToken: string; expiresIn: number }): Tokens {
  const { token, refreshToken, expiresIn } = answer;
  return { token, refreshToken, expiresAtMs: Date.now() + expiresIn * 1000 };
}

function renewalOf(expiresAtMs: number, lifeMs = expiresAtMs - Date.now()): number {
  return expiresAtMs - Math.min(renewBeforeMs, Math.max(0, lifeMs) / 10);
}

async function isTokenRefused(response: Response): Promise<boolean> {
  const body: unknown = await response.clone().json();
  // A detail may follow the word.
  return typeof body === 'object' && body !== null && 'message' in body && /^unauthorized\b/.test(String(body.message));
}
