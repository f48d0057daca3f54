// Publishes whose callers wait for a bridge's answer. In memory only. Sends no publish after its expiry, and none a second
// time if the first may have reached the broker.
import type { PublishFailure, PublishOutcome } from '../../domain/publish-outcome.ts';
import type { PublishFrame } from '../../protocol/bridge.ts';

export type PublishRequest = Pick<PublishFrame, 'topic' | 'payload' | 'expiresAtMs'> &
  Partial<Pick<PublishFrame, 'messageExpirySeconds' | 'reply'>>;

/** The active bridge while it is connected to its broker. */
export type Recipient = { instanceId: string; send: (frame: PublishFrame) => void };

type Pending = {
  frame: Omit<PublishFrame, 'messageExpirySeconds'>;
  /** Instance of the bridge that has it; null while none does. */
  sentTo: string | null;
  /** When the broker is to discard it if it still has it. */
  discardAtMs: number;
  resolve: (outcome: PublishOutcome) => void;
};

/** How much longer than the expiry a caller waits for the bridge's answer. */
const answerGraceMs = 500;

export class PendingPublishes {
  readonly #pending = new Map<string, Pending>();

  /** Resolves when a bridge answers, at the latest shortly after `expiresAtMs`. */
  async publish(request: PublishRequest, recipient: Recipient | undefined): Promise<PublishOutcome> {
    const { topic, payload, expiresAtMs, reply } = request;
    const nowMs = Date.now();
    const lifeMs = expiresAtMs - nowMs;
    if (lifeMs <= 0) return { ok: false, reason: 'expired' };
    const id = crypto.randomUUID();
    const { promise, resolve } = Promise.withResolvers<PublishOutcome>();
    const pending: Pending = {
      frame: { type: 'publish', id, topic, payload, expiresAtMs, ...(reply && { reply }) },
      sentTo: null,
      discardAtMs: nowMs + (request.messageExpirySeconds ?? Math.ceil(lifeMs / 1000)) * 1000,
      resolve,
    };
    this.#pending.set(id, pending);
    send(pending, recipient);
    // The caller's request keeps the object awake anyway, so that this timer prevents no hibernation.
    const timer = setTimeout(() => {
      // A publish that no bridge had has certainly not happened; after a timeout it may have.
      resolve({ ok: false, reason: pending.sentTo === null ? 'no_bridge' : 'timeout' });
    }, lifeMs + answerGraceMs);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#pending.delete(id);
    }
  }

  sendWaiting(recipient: Recipient | undefined): void {
    for (const pending of this.#pending.values()) send(pending, recipient);
  }

  /** The bridge says how the publish ended. Only the instance that has it may say so. */
  answer(
    id: string,
    instanceId: string,
    outcome: { hasSubscribers: boolean | null; reply: string | undefined } | { reason: PublishFailure },
  ) {
    const pending = this.#pending.get(id);
    if (pending?.sentTo !== instanceId) return;
    pending.resolve(
      'reason' in outcome ? { ok: false, ...outcome } : { ok: true, id, publishedAtMs: Date.now(), ...outcome },
    );
  }

  /**
   * The bridge has not passed it to the broker, so any bridge may have it next.
   * @returns false if this instance does not have it
   */
  takeBack(id: string, instanceId: string): boolean {
    const pending = this.#pending.get(id);
    if (pending?.sentTo !== instanceId) return false;
    pending.sentTo = null;
    return true;
  }

  /** To send an instance all that it has once more: it answers from memory for what it has published. */
  takeBackAll(instanceId: string): void {
    for (const pending of this.#pending.values()) if (pending.sentTo === instanceId) pending.sentTo = null;
  }

  /** Another bridge is active now. What the former one has is not sent again: it may have been published. */
  giveUpAllBut(instanceId: string): void {
    for (const { sentTo, resolve } of this.#pending.values()) {
      if (sentTo !== null && sentTo !== instanceId) resolve({ ok: false, reason: 'bridge_lost' });
    }
  }
}

function send(pending: Pending, recipient: Recipient | undefined): void {
  if (recipient === undefined || pending.sentTo !== null) return;
  pending.sentTo = recipient.instanceId;
  const messageExpirySeconds = Math.max(1, Math.ceil((pending.discardAtMs - Date.now()) / 1000));
  recipient.send({ ...pending.frame, messageExpirySeconds });
}
