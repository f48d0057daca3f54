// What an attack is, what it may know, and what it finds. Where a bystander is timed, an attack runs in a thread of its
// own, so that what it computes does not slow his clock. Must not start or stop any part.
import type { Activation } from '../../../rig/clients/accounts.ts';

/** Everything an attacker is taken to know or to own. */
export type Target = {
  url: string;
  mqttUrl: string;
  mqttPort: number;
  gatewayPort: number;
  /** What sets the scene of an attack: where mails arrive, and the operator, who disables accounts. */
  mailbox: string;
  operatorSecret: string;
  /** The account that is attacked: its address and its ids are known, its secrets are not. */
  victim: { email: string; productKey: string; deviceSN: string; deviceId: string };
  /** An account of the attacker's own, with a product and devices. */
  own: { token: string; productKey: string; devices: Activation[] };
};

export type Effort = {
  seconds: number;
  /** Parallel clients of a flood. */
  clients: number;
  sockets: number;
  seed: number;
};

export type Result = {
  /** Requests, frames, packets or connections. */
  tried: number;
  /** How they ended, counted by answer. */
  answers: Record<string, number>;
  /** What must not happen, and did. */
  problems: string[];
};

export type Attack = {
  name: string;
  /** What is tried, in one line. */
  title: string;
  /** What must hold, in one line. */
  holds: string;
  /** It waits, for a deadline or for its turns, longer than a round. */
  isOnce?: true;
  /** What a bystander's p95 may become, in milliseconds; as rig/judgement.ts says without. */
  slowsToMs?: number;
  run: (target: Target, effort: Effort) => Promise<Result>;
};

/** MAX_CONNECTIONS_PER_ADDRESS of the gateway: more than may be unauthenticated at once. */
export const placesOfAddress = 120;

const maxProblems = 5;

/** Collects a result while an attack runs. */
export class Tally {
  readonly #answers = new Map<string, number>();
  readonly #problems: string[] = [];
  #problemCount = 0;
  tried = 0;

  note(answer: string | number): void {
    this.tried += 1;
    const key = String(answer);
    this.#answers.set(key, (this.#answers.get(key) ?? 0) + 1);
  }

  problem(text: string): void {
    this.#problemCount += 1;
    if (this.#problems.length < maxProblems) this.#problems.push(text.slice(0, 400));
  }

  of(answer: string | number): number {
    return this.#answers.get(String(answer)) ?? 0;
  }

  result(): Result {
    const more = this.#problemCount - this.#problems.length;
    return {
      tried: this.tried,
      answers: Object.fromEntries([...this.#answers].toSorted(([, count], [, next]) => next - count)),
      problems: more > 0 ? [...this.#problems, `and ${more} more`] : this.#problems,
    };
  }
}
