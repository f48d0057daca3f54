// Topics as a subscriber sees them (contract 6).

/** Everything about one device. */
export function topicOfDevice({ productKey, deviceId }: { productKey: string; deviceId: string }): string {
  return `/sys/${productKey}/${deviceId}/#`;
}

/** What users who may follow a device are told of its record: read the device again. */
export type RecordChange = 'record_changed' | 'deleted' | 'members_changed';

/** Undefined for a message of the device itself. */
export function recordChangeOf(message: { topic: string; payload: unknown }): RecordChange | undefined {
  if (message.topic.split('/').slice(4).join('/') !== 'record') return undefined;
  return (message.payload as { change: RecordChange }).change;
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
