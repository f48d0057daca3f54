// The links that bring commands, beside the one that decides on the role: open while this bridge is active. Where one is not
// there, its commands come over the other link. It must not look into a command.
import { runDetached } from '../../../node-service/detached.ts';
import { WorkerLink } from './worker-link.ts';
import type { BridgeFrame } from '../../../src/protocol/bridge.ts';

export class CommandLinks {
  readonly #open: (number: number) => WorkerLink;
  #links: WorkerLink[] = [];

  /** @param open makes the link with this number; it is started and stopped here */
  constructor(open: (number: number) => WorkerLink) {
    this.#open = open;
  }

  get connectedCount(): number {
    return this.#links.filter(({ isConnected }) => isConnected).length;
  }

  setCount(count: number): void {
    for (const link of this.#links.splice(count)) runDetached(link.stop());
    while (this.#links.length < count) {
      const link = this.#open(this.#links.length);
      this.#links.push(link);
      link.start();
    }
  }

  send(frame: BridgeFrame): void {
    for (const link of this.#links) link.send(frame);
  }

  async stop(): Promise<void> {
    await Promise.all(this.#links.splice(0).map((link) => link.stop()));
  }
}
