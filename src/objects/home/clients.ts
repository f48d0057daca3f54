// The MQTT clients of a home: Home Assistant, or a broker that passes its messages on. Lets them in, remembers what they subscribe to,
// and writes to those who want a message. Knows no device: what there is to say, and what becomes of an order, others know.
import { readConfig } from '../../config.ts';
import { beginSession, silentFromMs, type DirectSession, type DirectStep } from '../../domain/direct/session.ts';
import { devicesMeantBy, homeLimits, homeRules, type HomeAction } from '../../domain/home/clients.ts';
import { matchesFilter } from '../../domain/topics.ts';
import { join } from '../../protocol/mqtt-codec/byte-cursor.ts';
import type { ConnectPacket } from '../../protocol/mqtt-codec/client-packets.ts';
import { encodePuback, encodePublish } from '../../protocol/mqtt-codec/server-packets.ts';
import { inBackground } from '../calls/background.ts';
import type { DirectConnection } from '../mqtt/connection.ts';
import { MqttSockets } from '../mqtt/sockets.ts';
import type { SendRetained } from './devices.ts';

type Message = DirectStep<HomeAction>['messages'][number];

type Home = {
  /** False: the API key has ended. @throws if the database does not answer */
  mayBegin: () => Promise<boolean>;
  /** A session began. */
  began: () => void;
  /** Now and then, while there are sessions: whether the key has ended unnoticed. */
  check: () => void;
  /** @returns the reason code of its PUBACK */
  order: (message: Message) => Promise<number>;
  /** Sends what a broker would have retained on topics of these filters. */
  sendRetained: (filters: readonly string[], send: SendRetained) => Promise<void>;
};

type Subscriptions = DirectSession['subscriptions'];

const checkEveryMs = 5 * 60_000;
/** Home Assistant subscribes in dozens of packets. */
const saveAfterMs = 500;
/** Between two answers to subscriptions of one client. */
const restMs = 1_000;
const discovery = 'homeassistant/device/+/config';

export class HomeClients extends MqttSockets<HomeAction> {
  readonly #ctx: DurableObjectState;
  readonly #home: Home;
  /** Filters whose retained messages a client waits for. */
  readonly #wanted = new Map<WebSocket, Set<string>>();
  readonly #acknowledged = new Map<WebSocket, Promise<void>>();
  readonly #unsaved = new Set<DirectConnection>();
  /** What the row has. */
  readonly #saved = new WeakMap<DirectConnection, Subscriptions>();

  constructor(ctx: DurableObjectState, env: Env, home: Home) {
    super(ctx, readConfig(env), { home: ctx.id.name });
    this.#ctx = ctx;
    this.#home = home;
    for (const { connection, session } of this.open()) {
      connection.areSubscriptionsKept = true;
      const subscriptions = ctx.storage.kv.get<Subscriptions>(rowOf(session)) ?? [];
      connection.session = { ...session, subscriptions };
      this.#saved.set(connection, subscriptions);
    }
  }

  protected override rules() {
    return homeRules;
  }

  hasAny(): boolean {
    return this.open().length > 0;
  }

  endAll(): void {
    for (const { connection } of this.open()) this.endByService(connection, { reason: 'revoked' });
  }

  /** To all who subscribed to the topic. */
  publish(topic: string, payload: string): void {
    for (const { connection } of this.open()) this.#send(connection, topic, payload, 'news');
  }

  protected override async logIn(connection: DirectConnection, packet: ConnectPacket): Promise<void> {
    const { level } = packet;
    const mayBegin = await this.#home.mayBegin();
    // Its time may have passed.
    if (!this.isConnecting(connection)) return;
    if (!mayBegin) {
      this.refuse(connection, level, 'bad_credentials');
      return;
    }
    const nowMs = Date.now();
    const { clientId = `home-${crypto.randomUUID().slice(0, 8)}` } = packet.clientId === '' ? {} : packet;
    for (const { connection: other, session } of this.open()) {
      if (silentFromMs(session) < nowMs) this.endByService(other, { reason: 'keep_alive' });
      // MQTT-3.1.4-2
      else if (session.clientId === clientId) this.endByService(other, { reason: 'taken_over' });
    }
    const others = this.open();
    if (others.length >= homeLimits.clients) {
      this.refuse(connection, level, 'quota');
      return;
    }
    const { keepAliveSeconds: longer } = homeLimits;
    const keepAliveSeconds = level === 5 ? longer : packet.keepAliveSeconds;
    const slots = Array.from({ length: homeLimits.clients }, (_, slot) => slot);
    const slot = slots.find((free) => others.every(({ session }) => session.slot !== free)) ?? 0;
    const own = { clientId, isBroker: packet.isBroker, keepAliveSeconds, slot, checkedAtMs: nowMs };
    const session = { ...beginSession(packet, null, nowMs), ...own };
    connection.areSubscriptionsKept = true;
    // Of a session whose end this object did not live to see.
    this.#ctx.storage.kv.delete(rowOf(session));
    this.#saved.set(connection, session.subscriptions);
    this.#home.began();
    const assigned = packet.clientId === '' && { assignedClientId: clientId };
    this.begin(connection, session, { keepAliveSeconds, ...assigned });
  }

  protected override take(connection: DirectConnection, step: DirectStep<HomeAction>): void {
    const { messages, replies, granted, end } = step;
    const nowMs = Date.now();
    const isChecked = nowMs - (step.session.checkedAtMs ?? 0) < checkEveryMs;
    // A client that sends reads, too.
    connection.session = { ...step.session, unreadBytes: 0, ...(!isChecked && { checkedAtMs: nowMs }) };
    if (!isChecked) this.#home.check();
    const answers = replies.flatMap((reply) => (reply.kind === 'bytes' ? [reply.bytes] : []));
    if (answers.length > 0) connection.send(join(answers));
    const packetIds = new Map(
      replies.flatMap((reply) => (reply.kind === 'puback' ? [[reply.message, reply.packetId]] : [])),
    );
    for (const [index, message] of messages.entries()) this.#takeMessage(connection, message, packetIds.get(index));
    this.#answerSubscriptions(
      connection,
      granted.flatMap(({ filter, wantsRetained }) => (wantsRetained ? [filter] : [])),
    );
    // A ping costs no row.
    if (this.#saved.get(connection) !== step.session.subscriptions) this.#saveSoon(connection);
    if (end === undefined) return;
    this.close(connection, end);
    this.ended(connection);
  }

  #takeMessage(connection: DirectConnection, message: Message, packetId: number | undefined): void {
    const { level = 4 } = connection.session ?? {};
    const isBirth = message.action === 'birth';
    if (isBirth && message.payload === 'online') this.#repeatDiscovery(connection);
    const taken = isBirth ? Promise.resolve(0) : this.#home.order(message);
    // MQTT-4.6.0-2: in the order in which they came.
    const before = this.#acknowledged.get(connection.socket);
    const acknowledged = Promise.all([taken, before]).then(([code]) => {
      if (packetId !== undefined && connection.isOpen()) connection.send(encodePuback(level, packetId, code));
    });
    this.#acknowledged.set(connection.socket, acknowledged);
    inBackground(this.#ctx, 'take an order', acknowledged);
  }

  #repeatDiscovery(connection: DirectConnection): void {
    // What is under way says it already.
    if (this.#wanted.has(connection.socket)) return;
    const send: SendRetained = (topic, payload) => this.#send(connection, topic, payload, 'news');
    inBackground(this.#ctx, 'repeat discovery', this.#home.sendRetained([discovery], send));
  }

  #answerSubscriptions(connection: DirectConnection, filters: readonly string[]): void {
    const { socket } = connection;
    const underWay = this.#wanted.get(socket);
    const wanted = underWay ?? new Set();
    for (const filter of filters) if (devicesMeantBy(filter) !== 'none') wanted.add(filter);
    if (underWay !== undefined || wanted.size === 0) return;
    this.#wanted.set(socket, wanted);
    inBackground(this.#ctx, 'send retained messages', this.#sendRetained(connection, wanted));
  }

  async #sendRetained(connection: DirectConnection, wanted: Set<string>): Promise<void> {
    const send: SendRetained = (topic, payload, as = 'retained') => this.#send(connection, topic, payload, as);
    try {
      while (wanted.size > 0 && connection.isOpen()) {
        const filters = [...wanted];
        wanted.clear();
        await this.#home.sendRetained(filters, send);
        if (filters.some((filter) => devicesMeantBy(filter) === 'all')) await scheduler.wait(restMs);
      }
    } finally {
      this.#wanted.delete(connection.socket);
    }
  }

  /** News has no retain flag: Home Assistant takes one retained message for each of its subscriptions. */
  #send(connection: DirectConnection, topic: string, payload: string, as: 'retained' | 'news'): void {
    const { session } = connection;
    const matching = indexOf(session?.subscriptions ?? []).find(topic);
    if (session === null || !connection.isOpen() || matching.length === 0) return;
    const isRetained = as === 'retained' || matching.some(({ keepsRetain }) => keepsRetain === true);
    const subscriptionIds = matching.flatMap(({ id }) => id ?? []);
    const bytes = encodePublish(session.level, topic, payload, 0, { isRetained, subscriptionIds });
    // MQTT5-3.1.2-24
    if (bytes.length > session.maxPacketBytes) return;
    const unreadBytes = session.unreadBytes + bytes.length;
    if (unreadBytes > homeLimits.unreadBytes) {
      this.endByService(connection, { reason: 'too_much_unread' });
      return;
    }
    connection.session = { ...session, unreadBytes };
    connection.send(bytes);
  }

  /** The timer keeps the object awake: only its end loses a row, and the connection with it. */
  #saveSoon(connection: DirectConnection): void {
    if (this.#unsaved.has(connection)) return;
    this.#unsaved.add(connection);
    setTimeout(() => {
      this.#unsaved.delete(connection);
      const { session } = connection;
      if (session === null || !connection.isOpen()) return;
      this.#ctx.storage.kv.put(rowOf(session), session.subscriptions);
      this.#saved.set(connection, session.subscriptions);
    }, saveAfterMs);
  }

  protected override ended({ socket }: DirectConnection): void {
    this.#acknowledged.delete(socket);
  }
}

const rowOf = ({ slot = 0 }: DirectSession): string => `subscriptions ${slot}`;

const indices = new WeakMap<Subscriptions, { find: (topic: string) => Subscriptions }>();

/** A client has a thousand filters without a wildcard. */
function indexOf(subscriptions: Subscriptions): { find: (topic: string) => Subscriptions } {
  const known = indices.get(subscriptions);
  if (known !== undefined) return known;
  const isWild = ({ filter }: Subscriptions[number]) => /[+#]/.test(filter);
  const exact = Map.groupBy(subscriptions, ({ filter }) => filter);
  const wild = subscriptions.filter(isWild);
  const find = (topic: string) => [
    ...(exact.get(topic) ?? []),
    ...wild.filter(({ filter }) => matchesFilter(filter, topic)),
  ];
  indices.set(subscriptions, { find });
  return { find };
}
