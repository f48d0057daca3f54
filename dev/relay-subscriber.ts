// A relay client as an application would write it: signs in with messaging credentials, subscribes without waiting for
// the reply (tolerance 50), comes back when the connection goes.
const reconnectEveryMs = 1_000;

export type RelayOptions = {
  url: string;
  username: string;
  password: string;
  topic: string;
  onSubscribed: () => void;
  onPush: (push: { topic: string; payload: unknown }) => void;
  /** Once per connection that had worked. */
  onLost: () => void;
  /** Once per reason; it tries again all the same. */
  onRefused: (reason: string) => void;
};

export class RelaySubscriber {
  readonly #options: RelayOptions;
  #socket: WebSocket | undefined;
  #retry: NodeJS.Timeout | undefined;
  #isClosed = false;
  #lastRefusal = '';

  constructor(options: RelayOptions) {
    this.#options = options;
    this.#open();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#retry);
    this.#socket?.close();
  }

  #open(): void {
    const { url, username, password, topic, onLost } = this.#options;
    const socket = new WebSocket(url);
    let isSubscribed = false;
    this.#socket = socket;
    socket.addEventListener('open', () => {
      socket.send(JSON.stringify({ action: 'auth', username, password }));
      socket.send(JSON.stringify({ action: 'subscribe', topic }));
    });
    socket.addEventListener('message', ({ data }) => {
      isSubscribed = this.#read(String(data)) || isSubscribed;
    });
    socket.addEventListener('close', () => {
      if (this.#isClosed) return;
      if (isSubscribed) onLost();
      this.#retry = setTimeout(() => this.#open(), reconnectEveryMs);
    });
    // 'close' follows every error and is handled above.
    socket.addEventListener('error', () => undefined);
  }

  /** true when the frame says that the subscription stands. */
  #read(frame: string): boolean {
    const message = JSON.parse(frame) as Record<string, unknown>;
    if (typeof message['topic'] === 'string' && 'payload' in message) {
      this.#options.onPush({ topic: message['topic'], payload: message['payload'] });
      return false;
    }
    if (message['code'] !== 200) {
      this.#giveUp(`${String(message['action'])}: ${String(message['message'])}`);
      return false;
    }
    if (message['action'] !== 'subscribe') return false;
    this.#lastRefusal = '';
    this.#options.onSubscribed();
    return true;
  }

  #giveUp(reason: string): void {
    this.#socket?.close();
    if (reason !== this.#lastRefusal) this.#options.onRefused(reason);
    this.#lastRefusal = reason;
  }
}
