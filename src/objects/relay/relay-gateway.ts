// One shard of the WebSocket relay (contract 6), as its callers and the platform see it: sockets open and close, devices push,
// rights end, and an alarm finds what was missed. A relay session never reaches the broker nor changes a device's presence.
import { DurableObject } from 'cloudflare:workers';
import { fingerprint } from '../../domain/fingerprint.ts';
import { describeError } from '../../log.ts';
import { maxRelayFrameBytes, type RevokeCause } from '../../protocol/relay.ts';
import { answerClose, clientAddressOf } from '../calls/open-socket.ts';
import type { RelayRun } from '../calls/push-to-relays.ts';
import { forgetRevokedUsers, readRevokedUsers } from '../calls/revoked-users.ts';
import { confirmFleet } from '../calls/stubs.ts';
import { within } from '../calls/within.ts';
import { RelayAuthentication } from './authentication.ts';
import { bytesOf } from './outbox.ts';
import { framesOf, RecentPushes } from './recent-pushes.ts';
import { RelayRequests } from './requests.ts';
import { deadlineOf, type RelayUser } from './rules.ts';
import { Shard, type CloseCause } from './shard.ts';
import { RelaySnapshots } from './snapshots.ts';

/** Sooner than the caller of a push gives the shard up. */
const answerWithinMs = 1_500;
/** Sockets whose deadlines are close together are closed by one alarm. */
const minAlarmIntervalMs = 1_000;
/** Each device and user is checked once in so many minutes. */
const recheckMinutes = 60;
/** Of devices, and of users, in one alarm, which may call 1 000 objects. */
const checksAtOnce = 490;

export class RelayGateway extends DurableObject<Env> {
  readonly #shard = new Shard(this.ctx, this.env);
  readonly #authentication = new RelayAuthentication(this.env, this.#shard.name);
  readonly #snapshots = new RelaySnapshots(this.env);
  readonly #recent = new RecentPushes();
  readonly #requests = new RelayRequests(this.env, this.#shard, this.#authentication, this.#snapshots);

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair('{"action":"ping"}', '{"action":"pong"}'));
  }

  override async fetch(request: Request): Promise<Response> {
    const address = clientAddressOf(request);
    const limit = this.#shard.limitReached(address);
    if (limit !== undefined) return Response.json(limit, { status: 429 });
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    await this.#shard.open(server, address);
    return new Response(null, { status: 101, webSocket: client });
  }

  countSockets(): number {
    return this.#shard.clients().length;
  }

  /**
   * Answers which devices have no subscriber here, and which users no subscription to all their devices. A push that has to
   * wait is answered when nothing waits any more, which keeps its caller from sending more than the shard can take.
   */
  async push(runs: RelayRun[]): Promise<{ nobodyFor: string[]; noFleetOf: number[] }> {
    const { outbox, subscribers } = this.#shard;
    outbox.beginPush();
    // Nothing is awaited here, so that no socket comes or goes between two messages of one push.
    const isHeard = runs.map((run) => this.#pushRun(run)).includes(true);
    if (isHeard && outbox.written !== undefined) await within(answerWithinMs, outbox.written);
    const deviceIds = new Set(runs.map(({ deviceId }) => deviceId));
    const readers = new Set(runs.flatMap((run) => run.readers ?? []));
    const left = <Id extends string | number>(ids: Set<Id>) =>
      [...ids].filter((id) => !this.#authentication.isRegistering(id));
    return {
      nobodyFor: left(deviceIds).filter((deviceId) => subscribers.ofDevice(deviceId).length === 0),
      noFleetOf: left(readers).filter((userId) => !subscribers.hasFleetOf(userId)),
    };
  }

  /**
   * Ends what a device's credentials allowed, except those of `generations`. If the device was deleted or has another owner,
   * ends what users subscribed to.
   */
  revoke(deviceId: string, cause: RevokeCause, generations: readonly number[]): void {
    this.#endRevoked(deviceId, cause, generations);
    if (cause === 'deleted' || cause === 'owner_changed') this.#endFollowing(deviceId, () => true);
    this.#authentication.onRevoked(deviceId, generations);
  }

  endKeys(keyIds: readonly string[]): void {
    for (const keyId of keyIds) this.#authentication.keys.onEnded(keyId);
    this.#endUsers('API key deleted', ({ keyId }) => keyId !== null && keyIds.includes(keyId));
  }

  /** The account was disabled or deleted. */
  endUser(userId: number): void {
    forgetRevokedUsers();
    this.#endUsers('account disabled', (user) => user.userId === userId);
  }

  endSubscriptions(deviceId: string, userId: number): void {
    this.#endFollowing(deviceId, (user) => user.userId === userId);
    this.#authentication.onUserEnded(deviceId, userId);
  }

  /** Of users: what they subscribed to, and what waits for them. */
  #endFollowing(deviceId: string, isMeant: (user: RelayUser) => boolean): void {
    const isEnded = (socket: WebSocket) => {
      const who = this.#shard.clientOf(socket)?.who;
      return who?.kind === 'user' && isMeant(who);
    };
    for (const socket of this.#shard.subscribers.ofDevice(deviceId).filter(isEnded)) {
      this.#shard.dropFilters(socket, deviceId);
    }
    this.#shard.outbox.drop(deviceId, isEnded);
  }

  #endUsers(cause: CloseCause, isEnded: (user: RelayUser) => boolean): void {
    for (const [socket, { who }] of this.#shard.clients()) {
      if (who?.kind === 'user' && isEnded(who)) this.#shard.end(socket, 1008, cause);
    }
  }

  /** Whether somebody is to hear it. */
  #pushRun(run: RelayRun): boolean {
    const { deviceId, topic, readers } = run;
    // A call of `revoke` may have failed: then the device's next message says that the credentials have ended.
    this.#endRevoked(deviceId, 'credentials_rotated', run.generations);
    const positions = this.#recent.takeNew(run);
    const sockets = this.#shard.subscribers
      .ofTopic(deviceId, topic, readers)
      .filter((socket) => this.#shard.isAllowed(socket, run));
    if (sockets.length === 0) return false;
    const frames = framesOf(run, positions);
    const write = { frames, bytes: bytesOf(frames), run };
    for (const socket of sockets) {
      if (!this.#snapshots.hold(socket, deviceId, frames)) this.#shard.outbox.push(socket, write);
    }
    return true;
  }

  #endRevoked(deviceId: string, cause: RevokeCause, generations: readonly number[]): void {
    for (const socket of this.#shard.subscribers.ofDevice(deviceId)) {
      const who = this.#shard.clientOf(socket)?.who;
      if (who?.kind === 'device' && !generations.includes(who.generation)) this.#shard.end(socket, 1008, cause);
    }
  }

  override async webSocketMessage(socket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    const client = this.#shard.clientOf(socket);
    if (client === undefined) return;
    const size = sizeOf(data);
    if (size > maxRelayFrameBytes) {
      this.#shard.refuseFrame(socket, client, size);
      return;
    }
    // The first byte of CONNECT (MQTT 2.2).
    if (client.who === null && typeof data !== 'string' && new Uint8Array(data)[0] === 0x10) {
      this.#shard.end(socket, 1003, 'MQTT is at /mqtt/{deviceId}');
      return;
    }
    // A pong is not counted as a frame: this side asked for it.
    if (this.#shard.outbox.takePong(socket, data) || !this.#shard.takeFrame(socket, client)) return;
    await this.#requests.receive(socket, data);
  }

  override webSocketClose(socket: WebSocket, code: number): void {
    answerClose(socket, code);
    this.#shard.remove(socket);
  }

  override webSocketError(socket: WebSocket, error: unknown): void {
    this.#shard.log('warn', 'relay socket failed', socket, describeError(error));
    this.#shard.remove(socket);
  }

  /**
   * Once a minute while there are sockets. Closes sockets that did not authenticate in time or whose token has expired, and
   * sockets whose credentials, API keys or accounts ended while this shard could not be told.
   */
  override async alarm(): Promise<void> {
    await Promise.all([this.#endMissedRevocations(), this.#endMissedUsers(), this.#confirmFleets()]);
    let nextMs = Infinity;
    const clients = this.#shard.clients();
    for (const [socket, client] of clients) {
      const deadlineMs = deadlineOf(client);
      if (deadlineMs > Date.now()) nextMs = Math.min(nextMs, deadlineMs);
      else this.#shard.end(socket, 1008, client.who === null ? 'not authenticated in time' : 'token expired');
    }
    if (clients.length > 0) await this.#shard.wakeBy(Math.max(nextMs, Date.now() + minAlarmIntervalMs));
  }

  async #endMissedRevocations(): Promise<void> {
    const due = this.#shard.clients().flatMap(([socket, { who }]) => {
      return who?.kind === 'device' && isDue(fingerprint(who.deviceId)) ? [{ socket, who }] : [];
    });
    await Promise.all(
      due.slice(0, checksAtOnce).map(async ({ socket, who }) => {
        const isOver = await this.#authentication.isRevoked(who);
        if (isOver && this.#shard.clientOf(socket) !== undefined) this.#shard.end(socket, 1008, 'credentials_rotated');
      }),
    );
  }

  async #confirmFleets(): Promise<void> {
    const due = this.#shard.subscribers.fleetUsers().filter(isDue);
    await Promise.all(due.slice(0, checksAtOnce).map((userId) => confirmFleet(this.env, userId, this.#shard.name)));
  }

  async #endMissedUsers(): Promise<void> {
    const users = this.#shard.clients().flatMap(([, { who }]) => (who?.kind === 'user' ? [who] : []));
    const keyIds = users.flatMap(({ keyId }) => keyId ?? []);
    this.endKeys(await this.#authentication.keys.findEnded(new Set(keyIds)));
    if (users.length === 0) return;
    const revoked = await readRevokedUsers(this.env);
    this.#endUsers('account disabled', ({ userId }) => revoked.has(userId));
  }
}

/** Spread over the minutes by its number: a shard that sleeps remembers nothing, and sockets come back all at once. */
function isDue(number: number): boolean {
  return number % recheckMinutes === Math.floor(Date.now() / 60_000) % recheckMinutes;
}

/** Bytes; of a text that is too large already the characters: it is not copied to be counted. */
function sizeOf(frame: string | ArrayBuffer): number {
  if (typeof frame !== 'string') return frame.byteLength;
  // A character has three bytes at most.
  const isClear = frame.length > maxRelayFrameBytes || 3 * frame.length <= maxRelayFrameBytes;
  return isClear ? frame.length : new TextEncoder().encode(frame).byteLength;
}
