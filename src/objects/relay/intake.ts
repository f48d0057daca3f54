// Takes pushes from devices and from the uplink: which messages are new here, and which sockets may have them. From here they
// go to the outbox. It must not close a socket unless the socket's credentials have ended.
import { within } from '../calls/within.ts';
import type { RelayRun } from '../calls/push-to-relays.ts';
import type { RelayAuthentication } from './authentication.ts';
import { bytesOf, type PushUnderWay } from './outbox.ts';
import { framesOf, RecentPushes } from './recent-pushes.ts';
import type { Shard } from './shard.ts';
import type { RelaySnapshots } from './snapshots.ts';

/** Sooner than the caller gives the shard up. */
const answerWithinMs = 1_500;

export class Intake {
  readonly #shard: Shard;
  readonly #authentication: RelayAuthentication;
  readonly #snapshots: RelaySnapshots;
  readonly #recent = new RecentPushes();

  constructor(shard: Shard, authentication: RelayAuthentication, snapshots: RelaySnapshots) {
    this.#shard = shard;
    this.#authentication = authentication;
    this.#snapshots = snapshots;
  }

  /**
   * Answers which devices have no subscriber here, and which users no subscription to all their devices. A large push is
   * answered when it is written, which keeps its caller from sending more than the shard can take.
   */
  async push(runs: readonly RelayRun[]): Promise<{ nobodyFor: string[]; noFleetOf: number[] }> {
    const push = this.#shard.outbox.beginPush();
    // Nothing is awaited here, so that no socket comes or goes between two messages of one push.
    for (const run of runs) this.#pushRun(run, push);
    push.noteEnded();
    if (!push.isWritten) await within(answerWithinMs, push.written);
    const deviceIds = new Set(runs.map(({ deviceId }) => deviceId));
    const readers = new Set(runs.flatMap((run) => run.readers ?? []));
    const { subscribers } = this.#shard;
    const left = <Id extends string | number>(ids: Set<Id>) =>
      [...ids].filter((id) => !this.#authentication.isRegistering(id));
    return {
      nobodyFor: left(deviceIds).filter((deviceId) => subscribers.ofDevice(deviceId).length === 0),
      noFleetOf: left(readers).filter((userId) => !subscribers.hasFleetOf(userId)),
    };
  }

  #pushRun(run: RelayRun, push: PushUnderWay): void {
    const { deviceId, topic, readers } = run;
    this.#endRevoked(run);
    const positions = this.#recent.takeNew(run);
    const sockets = this.#shard.subscribers
      .ofTopic(deviceId, topic, readers)
      .filter((socket) => this.#shard.isAllowed(socket, run));
    if (sockets.length === 0) return;
    const frames = framesOf(run, positions);
    const write = { frames, bytes: bytesOf(frames), run, push };
    for (const socket of sockets) {
      if (!this.#snapshots.hold(socket, deviceId, frames)) this.#shard.outbox.push(socket, write);
    }
  }

  /** A call of `revoke` may have failed: then the device's next message says that the credentials have ended. */
  #endRevoked({ deviceId, generations }: RelayRun): void {
    for (const socket of this.#shard.subscribers.ofDevice(deviceId)) {
      const who = this.#shard.clientOf(socket)?.who;
      if (who?.kind !== 'device' || generations.includes(who.generation)) continue;
      this.#shard.end(socket, 1008, 'credentials_rotated');
    }
  }
}
