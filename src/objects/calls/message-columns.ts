// Messages as they travel from the uplink to a device's object: an object each would have its members named and looked
// up each time.
import type { InboundMessage } from '../../domain/device/messages/inbox.ts';
import { topicActions, type TopicAction } from '../../protocol/mqtt.ts';

export type MessageColumns = {
  seqs: number[];
  actions: TopicAction[];
  payloads: string[];
  receivedAtMs: number[];
  /** Of the few that have a flag: by position. */
  dups: Map<number, { redeliveryOf: number | undefined; isSoleReader: boolean }>;
  retained: Set<number>;
};

export function packMessages(messages: readonly InboundMessage[]): MessageColumns {
  const columns: MessageColumns = {
    seqs: [],
    actions: [],
    payloads: [],
    receivedAtMs: [],
    dups: new Map(),
    retained: new Set(),
  };
  for (const [position, message] of messages.entries()) {
    columns.seqs.push(message.seq);
    columns.actions.push(message.action);
    columns.payloads.push(message.payload);
    columns.receivedAtMs.push(message.receivedAtMs);
    const { isDup, redeliveryOf, isSoleReader, isRetained } = message;
    if (isDup) columns.dups.set(position, { redeliveryOf, isSoleReader });
    if (isRetained) columns.retained.add(position);
  }
  return columns;
}

export function unpackMessages(columns: MessageColumns): InboundMessage[] {
  return columns.seqs.map((seq, position) => {
    const dup = columns.dups.get(position);
    return {
      seq,
      action: columns.actions[position] ?? topicActions.propertyPost,
      payload: columns.payloads[position] ?? '',
      receivedAtMs: columns.receivedAtMs[position] ?? 0,
      isDup: dup !== undefined,
      redeliveryOf: dup?.redeliveryOf,
      isSoleReader: dup?.isSoleReader ?? false,
      isRetained: columns.retained.has(position),
    };
  });
}
