// Topics as a subscriber sees them (contract 6).

/** Everything about one device. */
export function topicOfDevice({ productKey, deviceId }: { productKey: string; deviceId: string }): string {
  return `/sys/${productKey}/${deviceId}/#`;
}

export function matchesFilter(filter: string, topic: string): boolean {
  const wanted = filter.split('/');
  const levels = topic.split('/');
  for (const [index, level] of wanted.entries()) {
    if (level === '#') return true;
    if (index >= levels.length || (level !== '+' && level !== levels[index])) return false;
  }
  return wanted.length === levels.length;
}
