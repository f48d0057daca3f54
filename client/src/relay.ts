// The live relay as one lasting thing: connects, signs in, subscribes, and does all of it again when the connection is
// lost. Messages of the time in between are gone: `onActive` says when it is time to read the present state again.
import { BackOff, type BackOffOptions } from './back-off.ts';
import { withoutSlash } from './http.ts';
import { RelaySocket, type Frame, type Loss, type WebSocketConstructor } from './relay-socket.ts';
import { matchesFilter } from './topics.ts';

export type Token = { token: string; renewAtMs: number };
/**
 * Messaging credentials of one device, an API key with the scope `read`, or a source of access
 * tokens; `refused` is one that the relay did not take.
 */
export type RelayLogin =
  { username: string; password: string } | { keyId: string; apiKey: string } | ((refused?: string) => Promise<Token>);

export type RelayState = 'connecting' | 'open' | 'waiting' | 'ended';

export type RelayOptions = {
  login: RelayLogin;
  /** Instead of the global one. Node 20 has none; there the one of the package `ws` will do. */
  WebSocket?: WebSocketConstructor;
  backOff?: BackOffOptions;
  /** `detail` says why it waits or has ended. */
  onState?: (state: RelayState, detail: string) => void;
};

export type RelayMessage = { topic: string; payload: unknown };

export type Listener = {
  /** Have the present state pushed first, each time that the subscription is made: a status and a report for each device. */
  snapshot?: boolean;
  onMessage: (message: RelayMessage) => void;
  /**
   * The subscription is in effect, for the first time or again (`isAgain`). What happened before did not reach
   * `onMessage`: read the present state now.
   */
  onActive?: (isAgain: boolean) => void;
  /** The relay does not allow it; nothing more comes. */
  onRefused?: (error: RelayError) => void;
};

export type Subscription = {
  /** Resolves when it is in effect for the first time. @throws RelayError */
  active: Promise<void>;
  end: () => void;
};

/** The relay refused, or has ended for good. `code` is that of a reply, or of the close. */
export class RelayError extends Error {
  override readonly name = 'RelayError';
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

type Entry = Listener & {
  topic: string;
  /** The connection on which it was last in effect. */
  activeOn: RelaySocket | undefined;
  resolve: () => void;
  reject: (error: RelayError) => void;
};

/** A new connection would be closed again. */
const finalCauses = [
  'deleted',
  'disabled',
  'credentials_rotated',
  'too many failed authentications',
  'API key deleted',
  'account disabled',
];
const longestTimerMs = 3_600_000;
const renewAgainMs = 5_000;

export class Relay {
  readonly #url: string;
  readonly #options: RelayOptions;
  readonly #Socket: WebSocketConstructor;
  readonly #backOff: BackOff;
  readonly #entries = new Set<Entry>();
  #state: RelayState = 'connecting';
  #end: RelayError | undefined;
  #socket: RelaySocket | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #token: Token | undefined;
  #hasTokenFailed = false;
  #activeSinceMs = Infinity;
  #heardAtMs: number | undefined;

  /** `baseUrl` is the address of the service. Connects at once. @throws Error if there is no WebSocket */
  constructor(baseUrl: string, options: RelayOptions) {
    this.#url = `${withoutSlash(baseUrl).replace(/^http/, 'ws')}/mqtt`;
    this.#options = options;
    this.#Socket = options.WebSocket ?? globalSocket();
    this.#backOff = new BackOff(options.backOff);
    this.#connect();
  }

  get state(): RelayState {
    return this.#state;
  }

  /** When the service was last heard on an open connection: later messages may have been missed. */
  get heardAtMs(): number | undefined {
    return this.#heardAtMs;
  }

  /** Of several subscriptions to one topic each gets every message. */
  subscribe(topic: string, listener: Listener): Subscription {
    let entry: Entry | undefined;
    const active = new Promise<void>((resolve, reject) => {
      entry = { ...listener, topic, activeOn: undefined, resolve, reject };
    });
    // It may be that nobody waits for it.
    active.catch((error: unknown) => error);
    const added = entry as unknown as Entry;
    if (this.#end !== undefined) {
      this.#refuse(added, this.#end);
      return { active, end: () => undefined };
    }
    this.#entries.add(added);
    if (this.#state === 'open') this.#sendSubscribe(topic);
    const end = () => {
      this.#entries.delete(added);
      if (this.#entriesOf(topic).length > 0 || this.#state !== 'open') return;
      this.#socket?.send({ action: 'unsubscribe', topic });
    };
    return { active, end };
  }

  /** Ends the connection for good. */
  close(): void {
    if (this.#end === undefined) this.#finish(new RelayError(1000, 'closed'));
  }

  #connect(): void {
    this.#setState('connecting', '');
    this.#authFrame(undefined).then(
      (auth) => {
        if (this.#end === undefined) this.#open(auth);
      },
      (error: unknown) => this.#onNoToken(error),
    );
  }

  #open(auth: Frame): void {
    this.#activeSinceMs = Infinity;
    this.#socket = new RelaySocket(this.#url, this.#Socket, {
      onOpen: () => this.#socket?.send(auth),
      onHeard: () => {
        if (this.#state === 'open') this.#heardAtMs = Date.now();
      },
      onFrame: (frame) => this.#take(frame),
      onLost: (loss) => this.#onLost(loss),
    });
  }

  async #authFrame(refused: string | undefined): Promise<Frame> {
    const { login } = this.#options;
    if (typeof login !== 'function') return { action: 'auth', ...login };
    this.#token = await login(refused);
    return { action: 'auth', token: this.#token.token };
  }

  #take(frame: Frame): void {
    const { action, topic, payload } = frame;
    if (action === undefined && typeof topic === 'string') {
      for (const entry of this.#entries) if (matchesFilter(entry.topic, topic)) entry.onMessage({ topic, payload });
    } else if (action === 'auth') {
      this.#onAuth(frame);
    } else if (action === 'subscribe' && typeof topic === 'string') {
      this.#onSubscribed(topic, frame);
    }
  }

  #onAuth({ code, message }: Frame): void {
    if (code === 200) {
      this.#hasTokenFailed = false;
      this.#planRenewal();
      // The token was exchanged on a connection that is in use.
      if (this.#state === 'open') return;
      this.#activeSinceMs = Date.now();
      this.#heardAtMs = this.#activeSinceMs;
      this.#setState('open', '');
      for (const topic of new Set([...this.#entries].map((entry) => entry.topic))) {
        this.#sendSubscribe(topic);
      }
      return;
    }
    const error = new RelayError(Number(code), String(message));
    if (code !== 401 || message === 'too_many_requests') this.#restart(error.message);
    else if (this.#token === undefined || this.#hasTokenFailed) this.#finish(error);
    else {
      this.#hasTokenFailed = true;
      this.#renew(this.#token.token);
    }
  }

  #sendSubscribe(topic: string): void {
    const snapshot = this.#entriesOf(topic).some((entry) => entry.snapshot === true);
    this.#socket?.send({ action: 'subscribe', topic, ...(snapshot && { snapshot }) });
  }

  #onSubscribed(topic: string, { code, message }: Frame): void {
    if (Number(code) >= 500) {
      this.#restart(String(message));
      return;
    }
    for (const entry of this.#entriesOf(topic)) {
      if (code !== 200) {
        this.#entries.delete(entry);
        this.#refuse(entry, new RelayError(Number(code), String(message)));
        continue;
      }
      // Another subscription to the same topic was asked for.
      if (entry.activeOn === this.#socket) continue;
      const isAgain = entry.activeOn !== undefined;
      entry.activeOn = this.#socket;
      entry.resolve();
      entry.onActive?.(isAgain);
    }
  }

  #onLost({ code, reason }: Loss): void {
    if (code === 1008 && finalCauses.includes(reason)) this.#finish(new RelayError(code, reason));
    else this.#retry(reason === '' ? `the connection was lost (${code})` : reason);
  }

  /** Where the session has ended there is no way on; otherwise the network comes back. */
  #onNoToken(error: unknown): void {
    const code = typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
    const message = error instanceof Error ? error.message : String(error);
    if (code === 401) this.#finish(new RelayError(401, message));
    else if (this.#state === 'connecting') this.#retry(message);
    else this.#schedule(() => this.#renew(), renewAgainMs);
  }

  #restart(why: string): void {
    this.#socket?.end();
    this.#retry(why);
  }

  #retry(why: string): void {
    if (this.#end !== undefined) return;
    const inMs = this.#backOff.nextMs(Date.now() - this.#activeSinceMs);
    this.#setState('waiting', why);
    this.#schedule(() => this.#connect(), inMs);
  }

  #planRenewal(): void {
    if (this.#token === undefined) return;
    const inMs = Math.max(0, this.#token.renewAtMs - Date.now());
    // Timers have a longest time; an earlier look is harmless.
    this.#schedule(() => (inMs > longestTimerMs ? this.#planRenewal() : this.#renew()), Math.min(inMs, longestTimerMs));
  }

  /** The relay closes with 'token expired' unless a new one comes in time. */
  #renew(refused?: string): void {
    this.#authFrame(refused).then(
      (auth) => this.#socket?.send(auth),
      (error: unknown) => this.#onNoToken(error),
    );
  }

  #finish(error: RelayError): void {
    this.#end = error;
    clearTimeout(this.#timer);
    this.#socket?.end();
    for (const entry of this.#entries) this.#refuse(entry, error);
    this.#entries.clear();
    this.#setState('ended', error.message);
  }

  #refuse(entry: Entry, error: RelayError): void {
    entry.reject(error);
    if (error.code !== 1000) entry.onRefused?.(error);
  }

  #entriesOf(topic: string): Entry[] {
    return [...this.#entries].filter((entry) => entry.topic === topic);
  }

  #setState(state: RelayState, detail: string): void {
    this.#state = state;
    this.#options.onState?.(state, detail);
  }

  /** One timer: of the next attempt, or of the next token. */
  #schedule(run: () => void, inMs: number): void {
    clearTimeout(this.#timer);
    if (this.#end === undefined) this.#timer = setTimeout(run, inMs);
  }
}

function globalSocket(): WebSocketConstructor {
  const { WebSocket: found } = globalThis as { WebSocket?: WebSocketConstructor };
  if (found === undefined) throw new Error('there is no global WebSocket: give one as the option `WebSocket`');
  return found;
}
