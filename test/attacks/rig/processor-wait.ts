// How long the threads that serve a bystander were ready to run and got no processor, from /proc, so on Linux only;
// elsewhere zero. All parts and attackers share one machine, and perhaps others use it: that wait is not the service's.
import { existsSync, readFileSync } from 'node:fs';
import { membersOfGroup } from '../../../rig/process-group.ts';

const own = '/proc/thread-self/schedstat';

export class ProcessorWait {
  readonly #always: readonly string[];
  readonly #carriers: readonly string[];

  /** @param leader of the process group that workerd is in, @param carriers bridge and broker */
  constructor(leader: number, carriers: readonly number[]) {
    const workerd = membersOfGroup(leader).flatMap(({ name, pid }) => (name === 'workerd' ? pid : []));
    const isThere = (file: string): boolean => existsSync(file);
    this.#always = [own, ...workerd.map(ofMainThread)].filter(isThere);
    this.#carriers = carriers.map(ofMainThread).filter(isThere);
  }

  /** @returns what gives the milliseconds since then */
  watch({ isCommand }: { isCommand: boolean }): () => number {
    const alwaysBefore = this.#always.map(waitedMs);
    const carriers = isCommand ? this.#carriers : [];
    const carriersBefore = carriers.map(waitedMs);
    return () => {
      const waited = this.#always
        .map((file, at) => waitedMs(file) - (alwaysBefore[at] ?? 0))
        .reduce((sum, ms) => sum + ms, 0);
      // They work for others at the same time: no more than one of them counts.
      return waited + Math.max(0, ...carriers.map((file, at) => waitedMs(file) - (carriersBefore[at] ?? 0)));
    };
  }
}

/** The one that does everything but collect garbage. */
function ofMainThread(pid: number): string {
  return `/proc/${pid}/task/${pid}/schedstat`;
}

/** The second number in the file is in nanoseconds (proc(5), /proc/pid/schedstat). */
function waitedMs(file: string): number {
  return Number(readFileSync(file, 'utf8').split(' ')[1]) / 1e6;
}
