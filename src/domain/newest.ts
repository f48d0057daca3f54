// What an isolate remembers beside its requests, bounded: the newest entries stay.

export function rememberNewest<T>(entries: Map<string, T>, key: string, entry: T, maxEntries: number): void {
  entries.delete(key);
  for (const oldest of entries.keys()) {
    if (entries.size < maxEntries) break;
    entries.delete(oldest);
  }
  entries.set(key, entry);
}

const blockMs = 60_000;
const maxBlocked = 10_000;

export class BlockedAddresses {
  readonly #untilMs = new Map<string, number>();

  block(address: string): void {
    rememberNewest(this.#untilMs, address, Date.now() + blockMs, maxBlocked);
  }

  secondsLeft(address: string): number {
    return Math.max(0, Math.ceil(((this.#untilMs.get(address) ?? 0) - Date.now()) / 1000));
  }
}
