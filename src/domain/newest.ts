// What an isolate remembers beside its requests, bounded: the newest entries stay.

export function rememberNewest<T>(entries: Map<string, T>, key: string, entry: T, maxEntries: number): void {
  entries.delete(key);
  for (const oldest of entries.keys()) {
    if (entries.size < maxEntries) break;
    entries.delete(oldest);
  }
  entries.set(key, entry);
}
