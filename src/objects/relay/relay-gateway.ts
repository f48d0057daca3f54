// One shard of the WebSocket relay (contract 6): its sockets, how they end, and pushing to them; what clients ask for is in
// relay-requests.ts. A relay session never reaches the broker nor changes a device's presence.
import { DurableObject } from 'cloudflare:workers';
import { readConfig } from '../../config.ts';
import type { RevokeCause } from '../../domain/revoke-cause.ts';
import { parseFilter } from '../../domain/topics.ts';
import { describeError, log } from '../../log.ts';
import { maxRelayFrameBytes } from '../../protocol/relay.ts';
import { answerClose, closeIfOpen } from '../calls/open-socket.ts';
import { RelayAuthentication } from './authentication.ts';
import { RelayCensus } from './census.ts';
import { RelayFloods } from './floods.ts';
import { RelayFrameRates } from './frame-rates.ts';
import { RelayIndex } from './index.ts';
import { RelayKeyWaits } from './key-waits.ts';
import { RelayMqtt } from './mqtt.ts';
import type { RelayRun } from '../calls/push-to-relays.ts';
import { framesOf, PushedMessages } from './recent-pushes.ts';
import { deadlineOf, dueDevices, identityKey, type RelayClient, type RelayIdentity } from './rules.ts';
import { RelayRequests } from './requests.ts';
import { RelaySender } from './sender.ts';
import { RelaySnapshots } from './snapshots.ts';
import { readClient, relayAddressHeader, writeClient, type CloseCause } from './socket.ts';
import { RelayWrites, type PushUnderWay, type Write } from './writes.ts';
import { within } from '../calls/within.ts';

/** Sockets whose deadlines are close together are closed by one alarm. */
const minAlarmIntervalMs = 1_000;
const lookAgainMs = 60_000;
/** One invocation may call 1 000 objects. */
const confirmationsAtOnce = 500;

export class RelayGateway extends DurableObject<Env> {
  readonly #shard = this.ctx.id.name ?? '';
  readonly #config = readConfig(this.env);
  readonly #index = new RelayIndex();
  readonly #census = new RelayCensus<WebSocket>(this.#config.limits);
  readonly #sender = new RelaySender(this.#census);
  readonly #isRated = this.#config.rateLimits === 'production';
  readonly #rates = new RelayFrameRates<WebSocket>(this.#config.limits);
  readonly #floods = new RelayFloods<WebSocket>(this.#config.limits, {
    sockets: () => [...this.#index.clients()].map(([socket]) => socket),
    addressOf: (socket) => this.#index.clientOf(socket)?.address,
    pingedAtMs: (socket) => this.ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime(),
    end: (socket) => this.#end(socket, 1008, 'too many frames'),
  });
  readonly #authentication = new RelayAuthentication(this.env, this.#shard);
  readonly #keyWaits = new RelayKeyWaits(this.#authentication.keys, {
    end: (keyId) => this.endKey(keyId),
    send: (socket, frames, bytes) => void this.#send(socket, frames, bytes),
    inBackground: (work) => this.ctx.waitUntil(work),
  });
  readonly #writes = new RelayWrites<WebSocket>({
    limits: this.#config.limits,
    write: (socket, write, isLate) => this.#write(socket, write, isLate),
    endFull: (socket) => this.#end(socket, 1013, 'too much unread'),
    nextTurn: () => scheduler.wait(0),
    inBackground: (work) => this.ctx.waitUntil(work),
  });
  readonly #pushed = new PushedMessages(this.#config.limits.relayRememberedDevices);
  readonly #snapshots = new RelaySnapshots(this.env);
  readonly #mqtt = new RelayMqtt(this.env, (socket) => this.#noteMqtt(socket));
  readonly #requests = new RelayRequests(
    this.env,
    {
      config: this.#config,
      index: this.#index,
      census: this.#census,
      rates: this.#rates,
      authentication: this.#authentication,
      snapshots: this.#snapshots,
    },
    {
      change: (socket, client) => this.#change(socket, client),
      end: (socket, code, cause) => this.#end(socket, code, cause),
      send: (socket, frames) => this.#writes.answer(socket, { frames, bytes: bytesOf(frames) }),
      signedIn: (who) => this.#signedIn(who),
      log: (level, event, socket, fields) => this.#log(level, event, socket, fields),
    },
  );

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair('{"action":"ping"}', '{"action":"pong"}'));
    // In the order of their opening, which tells the oldest ones.
    const known = ctx.getWebSockets().map((socket) => ({ socket, client: readClient(socket) }));
    for (const { socket, client } of known.sort((one, other) => one.client.openedAtMs - other.client.openedAtMs)) {
      this.#census.open(socket, client.address);
      if (client.who !== null) this.#census.signIn(socket, identityKey(client.who), Infinity);
      // What carried it was in memory.
      if (client.isMqtt) closeIfOpen(socket, 1012, 'restarted');
      if (client.isEnded || client.isMqtt) this.#census.end(socket);
      else this.#index.put(socket, client);
    }
  }

  /** Answers 429 with the limit where the client's address, or the shard, has too many sockets. */
  override async fetch(request: Request): Promise<Response> {
    const address = decodeURIComponent(request.headers.get(relayAddressHeader) ?? '');
    const limit = this.#floods.limitReachedBy(address, Date.now()) ?? this.#census.limitReachedBy(address);
    if (limit !== undefined) return Response.json(limit, { status: 429 });
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    const opened = { socketId: crypto.randomUUID(), address, openedAtMs: Date.now() };
    const unknown = { ...opened, failedAuths: 0, who: null, filters: [], isEnded: false, isMqtt: false };
    this.#change(server, unknown);
    for (const oldest of this.#census.open(server, address)) {
      this.#end(oldest, 1013, 'too many sockets that have not authenticated');
    }
    if (this.#isRated) this.ctx.waitUntil(this.#floods.endPingFloodsSoon());
    await this.#wakeBy(deadlineOf(unknown));
    return new Response(null, { status: 101, webSocket: client });
  }

  /**
   * Pushes a batch; answers which devices have no subscriber here, and which users no subscription to all they have. A large one
   * is answered when it is written, which keeps its caller from sending more than the shard can take.
   */
  async push(runs: RelayRun[]): Promise<{ nobodyFor: string[]; noFleetOf: number[] }> {
    const push = this.#writes.begin();
    // Nothing is awaited here, so that no socket comes or goes between two messages of one push.
    for (const run of runs) this.#pushRun(run, push);
    push.noteEnded();
    // Before the caller takes the shard for one that does not answer.
    if (!push.isWritten) await within(this.#config.limits.objectAnswerMs / 2, push.written);
    const deviceIds = new Set(runs.map(({ deviceId }) => deviceId));
    const nobodyFor = [...deviceIds].filter((deviceId) => !this.#hasSubscribers(deviceId));
    const readers = new Set(runs.flatMap((run) => run.readers ?? []));
    const noFleetOf = [...readers].filter((userId) => !this.#hasFleetOf(userId));
    // With a fleet listening, memory is bounded by number.
    if (noFleetOf.length === readers.size) for (const deviceId of nobodyFor) this.#pushed.forget(deviceId);
    return { nobodyFor, noFleetOf };
  }

  /**
   * Ends what a device's credentials allowed, except those of `generations`, and, where the device was deleted or has
   * another owner, what users subscribed to.
   */
  revoke(deviceId: string, cause: RevokeCause, generations: readonly number[]): void {
    for (const socket of this.#index.socketsOf(deviceId)) {
      const client = readClient(socket);
      if (client.who?.kind === 'device') {
        if (!generations.includes(client.who.generation)) this.#end(socket, 1008, cause);
      } else if (cause === 'deleted' || cause === 'owner changed') {
        this.#dropFilters(socket, client, deviceId);
      }
    }
    if (cause === 'deleted' || cause === 'owner changed') this.#writes.drop(deviceId, () => true);
    this.#authentication.onRevoked(deviceId, generations);
    if (!this.#hasSubscribers(deviceId)) this.#pushed.forget(deviceId);
  }

  /** Ends the sockets that were opened with an API key. */
  endKey(keyId: string): void {
    this.#authentication.keys.onEnded(keyId);
    for (const [socket, { who }] of [...this.#index.clients()]) {
      if (who?.kind === 'user' && who.key?.keyId === keyId) this.#end(socket, 1008, 'API key deleted');
    }
  }

  /** Ends what a user follows of a device that is not shared with them any more. */
  endSubscriptions(deviceId: string, userId: number): void {
    for (const socket of this.#index.socketsOf(deviceId)) {
      if (this.#isOfUser(socket, userId)) this.#dropFilters(socket, readClient(socket), deviceId);
    }
    this.#writes.drop(deviceId, (socket) => this.#isOfUser(socket, userId));
    this.#authentication.onUserEnded(deviceId, userId);
    if (!this.#hasSubscribers(deviceId)) this.#pushed.forget(deviceId);
  }

  override async webSocketMessage(socket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    const client = this.#index.clientOf(socket);
    if (client === undefined) return;
    const pump = client.who === null ? this.#mqtt.pumpFor(socket, client.address, data) : undefined;
    if (pump !== undefined) {
      await pump.receive(data);
      return;
    }
    if (new Blob([data]).size > maxRelayFrameBytes) {
      this.#end(socket, 1009, 'frame larger than 16 KiB');
      return;
    }
    // Not counted as a frame: this side asked for it.
    if (this.#sender.takePong(socket, data)) return;
    if (this.#isRated && !this.#rates.mayBeSentOn(socket, Date.now())) {
      this.#floods.end(socket);
      return;
    }
    await this.#requests.receive(socket, data);
  }

  override webSocketClose(socket: WebSocket, code: number): void {
    this.#mqtt.closed(socket, code);
    answerClose(socket, code);
    this.#forget(socket);
    this.#census.remove(socket);
  }

  override webSocketError(socket: WebSocket, error: unknown): void {
    this.#log('warn', 'relay socket failed', socket, describeError(error));
    this.#mqtt.closed(socket, 1006);
    this.#forget(socket);
    this.#census.remove(socket);
  }

  /**
   * Closes sockets that did not authenticate in time, those whose token has expired, and what only a look from time to time
   * finds: floods of pings, and sockets whose credentials or API keys ended while this shard could not be told.
   */
  override async alarm(): Promise<void> {
    await Promise.all([
      this.#isRated ? this.#floods.endPingFloods() : undefined,
      this.#endMissedRevocations(),
      this.#endMissedKeys(),
      this.#confirmFleets(),
    ]);
    let nextMs = Date.now() + lookAgainMs;
    for (const [socket, client] of this.#index.clients()) {
      const deadlineMs = deadlineOf(client);
      if (deadlineMs > Date.now()) nextMs = Math.min(nextMs, deadlineMs);
      else this.#end(socket, 1008, client.who === null ? 'not authenticated in time' : 'token expired');
    }
    if (this.#index.size > 0) await this.#wakeBy(Math.max(nextMs, Date.now() + minAlarmIntervalMs));
  }

  /** Each socket once in `relayRecheckMinutes`, by the minute in which it was opened: a shard that sleeps remembers nothing. */
  async #endMissedRevocations(): Promise<void> {
    const every = this.#config.limits.relayRecheckMinutes;
    const due = dueDevices(this.#index.clients(), every, Date.now());
    await Promise.all(
      due.map(async ([socket, device]) => {
        const isOver = await this.#authentication.isRevoked(device);
        if (isOver && this.#index.clientOf(socket) !== undefined) this.#end(socket, 1008, 'credentials rotated');
      }),
    );
  }

  /** Each user's once in `relayRecheckMinutes`. */
  async #confirmFleets(): Promise<void> {
    const { relayRecheckMinutes: every } = this.#config.limits;
    const minute = Math.floor(Date.now() / 60_000) % every;
    const due = this.#index.fleetUsers().filter((userId) => userId % every === minute);
    await Promise.all(due.slice(0, confirmationsAtOnce).map((userId) => this.#authentication.confirmFleet(userId)));
  }

  async #signedIn(who: RelayIdentity): Promise<void> {
    if (this.#isRated) this.ctx.waitUntil(this.#floods.endPingFloodsSoon());
    if (who.kind === 'user') await this.#wakeBy(who.expiresAtMs ?? Date.now() + lookAgainMs);
  }

  /** One read of the database a minute, however many keys there are. */
  async #endMissedKeys(): Promise<void> {
    const known = [...this.#index.clients()].flatMap(([, { who }]) =>
      who?.kind === 'user' && who.key !== undefined ? [who.key.keyId] : [],
    );
    for (const keyId of await this.#authentication.keys.findEnded(new Set(known))) this.endKey(keyId);
  }

  #noteMqtt(socket: WebSocket): void {
    const client = this.#index.clientOf(socket);
    if (client === undefined) return;
    this.#change(socket, { ...client, isMqtt: true });
    this.#census.signIn(socket, `mqtt ${client.socketId}`, Infinity);
  }

  #pushRun(run: RelayRun, push: PushUnderWay): void {
    const { deviceId, topic, generations } = run;
    this.#endRevoked(deviceId, generations);
    const positions = this.#pushed.takeNew(run);
    const sockets = this.#index
      .subscribersOf(deviceId, topic, run.readers)
      .filter((socket) => this.#isStillAllowed(socket, run));
    if (sockets.length === 0) return;
    const frames = framesOf(run, positions);
    const write = { frames, bytes: bytesOf(frames), run, push };
    for (const socket of sockets) if (!this.#snapshots.hold(socket, deviceId, frames)) this.#writes.push(socket, write);
  }

  #write(socket: WebSocket, { frames, bytes, run }: Write, isLate: boolean): void {
    if (run !== undefined && isLate) {
      const { deviceId, topic, readers } = run;
      if (!this.#index.isSubscriber(socket, deviceId, topic, readers) || !this.#isStillAllowed(socket, run)) return;
    }
    const lost = this.#send(socket, frames, bytes);
    if (run !== undefined && lost > 0) this.#log('warn', 'relay push lost', socket, { deviceId: run.deviceId, lost });
  }

  /** A call of `revoke` may have failed: then the device's next message says that the credentials have ended. */
  #endRevoked(deviceId: string, generations: readonly number[]): void {
    for (const socket of this.#index.socketsOf(deviceId)) {
      const who = this.#index.clientOf(socket)?.who;
      if (who?.kind === 'device' && !generations.includes(who.generation))
        this.#end(socket, 1008, 'credentials rotated');
    }
  }

  /** Ends the socket instead where its client does not read. @returns how many frames the socket did not take */
  #send(socket: WebSocket, frames: string[], bytes: number): number {
    const client = this.#index.clientOf(socket);
    if (client === undefined) return frames.length;
    const keyId = client.who?.kind === 'user' ? client.who.key?.keyId : undefined;
    if (keyId !== undefined && !this.#keyWaits.maySend(socket, keyId, frames, bytes)) return 0;
    const lost = this.#sender.send(socket, frames, bytes);
    if (lost === undefined) this.#end(socket, 1013, 'too much unread');
    return lost ?? frames.length;
  }

  #hasSubscribers(deviceId: string): boolean {
    return this.#authentication.isRegistering(deviceId) || this.#index.socketsOf(deviceId).length > 0;
  }

  #hasFleetOf(userId: number): boolean {
    return this.#authentication.isRegisteringFleet(userId) || this.#index.hasFleetOf(userId);
  }

  /**
   * A user's socket may not outlive its token, and the alarm that closes it may be late. Nor may it outlive the right to the
   * device, and the call that ends its subscription may have failed: the message says who may follow the device.
   */
  #isStillAllowed(socket: WebSocket, { readers }: RelayRun): boolean {
    const client = this.#index.clientOf(socket);
    if (client === undefined || deadlineOf(client) <= Date.now()) return false;
    return readers === undefined || client.who?.kind !== 'user' || readers.includes(client.who.userId);
  }

  #isOfUser(socket: WebSocket, userId: number): boolean {
    const who = this.#index.clientOf(socket)?.who;
    return who?.kind === 'user' && who.userId === userId;
  }

  #dropFilters(socket: WebSocket, client: RelayClient, deviceId: string): void {
    const filters = client.filters.filter((filter) => parseFilter(filter)?.device.deviceId !== deviceId);
    this.#change(socket, { ...client, filters });
  }

  #change(socket: WebSocket, client: RelayClient): boolean {
    if (!writeClient(socket, client)) return false;
    this.#index.put(socket, client);
    return true;
  }

  #end(socket: WebSocket, code: number, cause: CloseCause): void {
    this.#log('info', 'relay socket closed', socket, { code, cause });
    this.#forget(socket);
    closeIfOpen(socket, code, cause);
  }

  #forget(socket: WebSocket): void {
    for (const deviceId of this.#index.remove(socket)) {
      if (!this.#hasSubscribers(deviceId)) this.#pushed.forget(deviceId);
    }
    this.#keyWaits.forget(socket);
    this.#writes.forget(socket);
    // The object may be evicted before the client answers the close: the socket must not be pushed to afterwards.
    writeClient(socket, { ...readClient(socket), isEnded: true, filters: [] });
  }

  async #wakeBy(atMs: number): Promise<void> {
    const plannedMs = await this.ctx.storage.getAlarm();
    if (plannedMs === null || plannedMs > atMs) await this.ctx.storage.setAlarm(atMs);
  }

  #log(level: 'info' | 'warn', event: string, socket: WebSocket, fields: Record<string, unknown>): void {
    log(level, event, { shard: this.#shard, socketId: readClient(socket).socketId, ...fields });
  }
}

function bytesOf(frames: readonly string[]): number {
  return frames.reduce((sum, frame) => sum + frame.length, 0);
}
