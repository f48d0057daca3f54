// What happened to each message, and what that means. Lost: the broker accepted it, and it has no effect. Doubled: more
// effects than deliveries to the broker. Overtaken: a later message of the device had its effect before. A resting message
// leaves no trace in its device: instead of doubled it is pushed again. It is unseen if it may have been pushed while
// nobody listened. It judges; it must not know how anything was sent or seen.
import { setTimeout as sleep } from 'node:timers/promises';

type Message = {
  device: string;
  /** Changes nothing about its device: that it was pushed is its whole effect. */
  isResting: boolean;
  /** The relay was connected from its first attempt on. */
  isWatched: boolean;
  attempts: number;
  isAccepted: boolean;
  isExcused: boolean;
  effects: number;
};

export type Verdict = {
  /** The publisher has the broker's PUBACK. */
  accepted: number;
  lost: number;
  doubled: number;
  /** As `doubled`, for resting messages. */
  pushedAgain: number;
  /** Accepted resting messages without a push while the relay was not connected all the time. */
  unseen: number;
  overtaken: number;
  /** Destroyed by the scenario itself on a disk that had confirmed them: not lost by the system. */
  excused: number;
  /** The first few numbers of each kind, to look for the cause. */
  examples: { lost: number[]; doubled: number[]; pushedAgain: number[]; overtaken: number[] };
};

/** Longer than any pause of bridge and Worker: back-off, the wait before a reconnect, a promotion. */
export const giveUpAfterQuietMs = 60_000;
const maxExamples = 8;

export class History {
  readonly #messages = new Map<number, Message>();
  readonly #lastByDevice = new Map<string, number>();
  readonly #overtaken: number[] = [];
  /** Seen in the state alone: the push of the same effect may still be on its way. */
  readonly #seenInState = new Set<number>();
  #lastEffectAtMs = performance.now();
  #isWatched = true;

  /** Called at every attempt, because each may give the broker a message of its own. Numbers of a device grow. */
  notePublished(number: number, device: string, isResting: boolean): void {
    const message = this.#messages.get(number) ?? newMessage(device, isResting);
    message.attempts += 1;
    if (!this.#isWatched) message.isWatched = false;
    this.#messages.set(number, message);
  }

  noteAccepted(number: number): void {
    const message = this.#messages.get(number);
    if (message !== undefined) message.isAccepted = true;
  }

  noteEffect(number: number): void {
    if (this.#seenInState.delete(number)) return;
    const message = this.#noteEffect(number);
    if (message.effects > 1) return;
    if ((this.#lastByDevice.get(message.device) ?? 0) > number) this.#overtaken.push(number);
    else this.#lastByDevice.set(message.device, number);
  }

  /** The state shows its effect, which the relay did not: not when that was. */
  noteSeenInState(number: number): void {
    if ((this.#messages.get(number)?.effects ?? 0) > 0) return;
    this.#noteEffect(number);
    this.#seenInState.add(number);
  }

  #noteEffect(number: number): Message {
    const message = this.#messages.get(number);
    if (message === undefined) throw new Error(`message ${number} came into effect and was never published`);
    this.#lastEffectAtMs = performance.now();
    message.effects += 1;
    return message;
  }

  /** From now on pushes are missed, also those of messages under way. */
  noteWatchLost(): void {
    this.#isWatched = false;
    for (const message of this.#messages.values()) if (message.effects === 0) message.isWatched = false;
  }

  noteWatchBack(): void {
    this.#isWatched = true;
  }

  /** The scenario destroyed it if nothing could save it. */
  excuse(number: number): void {
    const message = this.#messages.get(number);
    if (message !== undefined) message.isExcused = true;
  }

  isExcused(number: number): boolean {
    return this.#messages.get(number)?.isExcused ?? false;
  }

  /** Attempts beyond the first of each message. */
  get repeatedAttempts(): number {
    return [...this.#messages.values()].reduce((sum, { attempts }) => sum + Math.max(0, attempts - 1), 0);
  }

  get missing(): number[] {
    return this.#numbersOf(isMissing);
  }

  /** Resolves when nothing is missing, or when no effect came for so long that none will. */
  async untilSettled(giveUpMs = giveUpAfterQuietMs, onLook: () => void = () => undefined): Promise<void> {
    const startedAtMs = performance.now();
    while (this.missing.length > 0) {
      onLook();
      if (performance.now() - Math.max(startedAtMs, this.#lastEffectAtMs) > giveUpMs) return;
      await sleep(100);
    }
  }

  judge(): Verdict {
    const all = [...this.#messages.values()];
    const lost = this.missing;
    const doubled = this.#numbersOf((message) => extraEffects(message) > 0 && !message.isResting);
    const pushedAgain = this.#numbersOf((message) => extraEffects(message) > 0 && message.isResting);
    const first = (numbers: number[]): number[] => numbers.slice(0, maxExamples);
    return {
      accepted: all.filter(({ isAccepted }) => isAccepted).length,
      lost: lost.length,
      doubled: sumExtraEffects(all.filter(({ isResting }) => !isResting)),
      pushedAgain: sumExtraEffects(all.filter(({ isResting }) => isResting)),
      unseen: all.filter((message) => hasNoEffect(message) && !wouldShow(message)).length,
      overtaken: this.#overtaken.length,
      excused: all.filter(({ isExcused, effects }) => isExcused && effects === 0).length,
      examples: {
        lost: first(lost),
        doubled: first(doubled),
        pushedAgain: first(pushedAgain),
        overtaken: first(this.#overtaken),
      },
    };
  }

  #numbersOf(isSo: (message: Message) => boolean): number[] {
    return [...this.#messages].filter(([, message]) => isSo(message)).map(([number]) => number);
  }
}

function newMessage(device: string, isResting: boolean): Message {
  return { device, isResting, isWatched: true, attempts: 0, isAccepted: false, isExcused: false, effects: 0 };
}

function isMissing(message: Message): boolean {
  return hasNoEffect(message) && wouldShow(message);
}

function hasNoEffect({ isAccepted, isExcused, effects }: Message): boolean {
  return isAccepted && !isExcused && effects === 0;
}

/**
 * Whether an effect would have been seen. The relay shows what it was connected for. The state shows each change until a later
 * one has its slot: who loses the relay has to read the state before that.
 */
function wouldShow({ isResting, isWatched }: Message): boolean {
  return !isResting || isWatched;
}

function extraEffects({ effects, attempts }: Message): number {
  return Math.max(0, effects - attempts);
}

function sumExtraEffects(messages: Message[]): number {
  return messages.reduce((sum, message) => sum + extraEffects(message), 0);
}
